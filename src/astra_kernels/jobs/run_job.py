"""The one function that evaluates: a job directory in, an Evaluation out, gates in order of cost."""

from __future__ import annotations

import dataclasses
import errno
import json
import os
import tempfile
import time
from pathlib import Path

from astra_kernels.errors import MachineFault
from astra_kernels.jobs.entry import adapter_of
from astra_kernels.jobs.gates import Gates
from astra_kernels.jobs.own_oracle import OwnOracle
from astra_kernels.jobs.prepare import Bench
from astra_kernels.jobs.programs import Workshop
from astra_kernels.jobs.spec import RESULT_FILE, read_spec
from astra_kernels.languages.cuda.toolchain import Toolchain, find_toolchain
from astra_kernels.records.evaluation import Evaluation

_NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.ENOMEM)


def run_job(
    job_dir: Path, *, toolchain: Toolchain | None = None, cache_dir: Path | None = None
) -> Evaluation:
    """Evaluates the job in `job_dir` and writes `result.json` there.

    Args:
        job_dir: a directory as `jobs.spec` describes it.
        toolchain: the CUDA compiler; found from the environment by default.
        cache_dir: where builds are kept; a directory in `job_dir` by default.

    Raises:
        UserError: the job cannot be used: a malformed file, a reference that raises, a baseline that
            fails in a job that judges a candidate.
        SetupError: a compiler or package is missing.
        MachineFault: the machine failed; the job can be run again.
    """
    started = time.perf_counter()
    job_dir = job_dir.resolve()
    spec = read_spec(job_dir)
    try:
        tools = toolchain or find_toolchain(os.environ)
        builds = cache_dir or job_dir / "build"
        adapter = adapter_of(spec)
        deadline_s = spec.limits.build_s * (1.0 if adapter is None else adapter.patience)
        shop = Workshop(job_dir, tools, builds, deadline_s, adapter)
        own = OwnOracle(spec, shop) if spec.oracle == "baseline" else None
        gates = Gates(spec, Bench(spec, job_dir, own), shop)
        outcome = dataclasses.replace(
            gates.evaluate(),
            device=gates.device_name(),
            sandbox=gates.sandbox,
            environment=gates.environment(),
            wall_s=time.perf_counter() - started,
            safety_s=gates.safety_s,
        )
        write_result(job_dir, outcome)
    except OSError as error:
        if error.errno in _NO_ROOM:
            raise MachineFault(f"no room left: {error}") from error
        raise
    except MemoryError as error:
        raise MachineFault("the supervising process has no memory left") from error
    return outcome


def write_result(job_dir: Path, outcome: Evaluation) -> None:
    """Writes `result.json`; it appears whole or not at all."""
    text = json.dumps(dataclasses.asdict(outcome), indent=1, allow_nan=False)
    handle, name = tempfile.mkstemp(prefix=".result-", dir=job_dir)
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        Path(name).replace(job_dir / RESULT_FILE)
    except OSError:
        Path(name).unlink(missing_ok=True)
        raise
