"""Runs a job directory in a process of its own, under a deadline."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from astra_kernels.errors import MachineFault, SetupError, UserError
from astra_kernels.jobs.sanitizer import TOOLS
from astra_kernels.jobs.spec import RESULT_FILE, JobSpec

_PASSED_ON = (
    "PATH",
    "PYTHONPATH",
    "HOME",
    "LANG",
    "LC_ALL",
    "TMPDIR",
    "XDG_CACHE_HOME",
    "LD_LIBRARY_PATH",
)
_PASSED_ON_PREFIXES = ("CUDA_", "ASTRA_")


def job_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """What a job needs of an environment: never a key or a token."""
    return {
        name: value
        for name, value in environment.items()
        if name in _PASSED_ON or name.startswith(_PASSED_ON_PREFIXES)
    }


def host_job(
    job: Path,
    spec: JobSpec,
    environment: Mapping[str, str],
    builds: Path,
    *,
    pulse: Callable[[], None] = lambda: None,
    pulse_s: float = 15.0,
) -> None:
    """Run one job directory to its `result.json`, in a session of its own.

    Args:
        job: the directory.
        spec: what its `job.json` says.
        environment: the process's whole environment; candidates see less still.
        builds: builds are kept here by content.
        pulse: called every `pulse_s` seconds while the job runs.
        pulse_s: seconds.

    Raises:
        UserError: the job cannot be run as asked: unknown device, a reference that raises.
        SetupError: a tool or package is missing here.
        MachineFault: the process ended without a result, or did not end.
    """
    process = subprocess.Popen(
        [
            sys.executable,
            "-P",  # the directory that the user stands in holds no modules of ours
            "-m",
            "astra_kernels.jobs",
            str(job),
            "--cache",
            str(builds),
            "--host",
            str(os.getpid()),
        ],
        env=dict(environment),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )
    try:
        output = _output(process, _deadline_s(spec), pulse, pulse_s)
    finally:
        _stop(process)
    message = output.decode(errors="replace").strip().splitlines()[-1:] or ["no message"]
    for kind in (UserError, SetupError):
        if process.returncode == kind.exit_code:
            raise kind(message[0])
    if process.returncode != 0 or not (job / RESULT_FILE).is_file():
        raise MachineFault(f"the worker ended with code {process.returncode}: {message[0]}")


def _output(
    process: subprocess.Popen[bytes], limit_s: float, pulse: Callable[[], None], pulse_s: float
) -> bytes:
    """What the process printed, once it has ended."""
    deadline = time.monotonic() + limit_s
    while (left := deadline - time.monotonic()) > 0:
        with contextlib.suppress(subprocess.TimeoutExpired):
            return process.communicate(timeout=min(pulse_s, left))[0]
        pulse()
    raise MachineFault("the worker did not end by its own deadlines and was stopped")


def _deadline_s(spec: JobSpec) -> float:
    """The sum of the stages' own deadlines, twice over for baseline and candidate, and some air."""
    limits = spec.limits
    answers = limits.oracle_s * len(spec.workloads)
    tools = len(TOOLS) * limits.safety_s if spec.safety else 0.0
    if spec.device.startswith("sim:"):
        tools = limits.safety_s
    hidden = 10 * limits.hidden_s if any(w.hidden for w in spec.workloads) else 0.0
    gates = 2 * (limits.build_s + limits.correctness_s + tools)
    return gates + answers + limits.time_s + hidden + 120.0


def _stop(process: subprocess.Popen[bytes]) -> None:
    """Let the worker end its children, then make sure that it is gone."""
    if process.poll() is not None:
        return
    process.send_signal(signal.SIGTERM)
    try:
        process.wait(timeout=5)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
