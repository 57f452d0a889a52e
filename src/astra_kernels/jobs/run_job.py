"""The one function that evaluates: a job directory in, an Evaluation out, gates in order of cost."""

from __future__ import annotations

import dataclasses
import errno
import json
import os
import platform
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import numpy as np

from astra_kernels.errors import MachineFault
from astra_kernels.jobs.correctness import Accuracies, Checked, Subject, check
from astra_kernels.jobs.prepare import Bench
from astra_kernels.jobs.programs import (
    Workshop,
    admission,
    build_failed,
    resources_of,
    sound_baseline,
)
from astra_kernels.jobs.spec import RESULT_FILE, JobSpec, WorkloadSpec, read_spec
from astra_kernels.jobs.timing import Contest, Timed, measure
from astra_kernels.jobs.wire import Program
from astra_kernels.languages.cuda.outcome import BuildFailure, Built
from astra_kernels.languages.cuda.toolchain import Toolchain, find_toolchain
from astra_kernels.records.evaluation import Evaluation, Passed, WorkloadResult

_NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


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
        shop = Workshop(job_dir, tools, cache_dir or job_dir / "build", spec.limits.build_s)
        job = _Job(spec, Bench(spec, job_dir), shop)
        outcome = job.evaluate()
        outcome = dataclasses.replace(
            outcome,
            device=job.device_name(),
            sandbox=job.sandbox,
            environment=job.environment(),
            wall_s=time.perf_counter() - started,
        )
        write_result(job_dir, outcome)
    except OSError as error:
        if error.errno in _NO_ROOM:
            raise MachineFault(f"no room left: {error}") from error
        raise
    return outcome


def write_result(job_dir: Path, outcome: Evaluation) -> None:
    """Writes `result.json`; it appears whole or not at all."""
    text = json.dumps(dataclasses.asdict(outcome), indent=1, allow_nan=False)
    with tempfile.NamedTemporaryFile("w", dir=job_dir, delete=False, encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    Path(file.name).replace(job_dir / RESULT_FILE)


class _Job:
    """One job's way through the gates."""

    def __init__(self, spec: JobSpec, bench: Bench, shop: Workshop) -> None:
        self._spec = spec
        self._bench = bench
        self._shop = shop
        self._facts: dict[str, Any] = {}
        self.sandbox = ""

    def evaluate(self) -> Evaluation:
        """Runs the gates and returns the first outcome that ends the job, or Passed."""
        spec = self._spec
        programs = {"subject": spec.subject}
        if spec.candidate is not None and self._needs_baseline():
            programs["baseline"] = spec.baseline
        builds = self._shop.start(programs)
        try:
            for workload in spec.workloads:
                self._bench.prepared(workload)  # while the compiler runs
            return self._judged(builds)
        finally:
            for future in builds.values():
                future.exception()  # waits: nothing of the job outlives it
            self._bench.release(spec.workloads)

    def device_name(self) -> str:
        """`cuda:0 NVIDIA H200` or `sim:h200`."""
        name = str(self._facts.get("name", ""))
        return (
            f"{self._spec.device} {name}"
            if self._spec.device.startswith("cuda")
            else self._spec.device
        )

    def environment(self) -> dict[str, str]:
        """Versions of everything that had a part."""
        tools = self._shop.toolchain
        facts = {k: str(v) for k, v in self._facts.items() if v not in ("", None)}
        return {
            "python": platform.python_version(),
            "numpy": np.__version__,
            "nvcc": tools.version,
            "host_compiler": tools.host.version,
            **{f"gpu_{key}": value for key, value in facts.items()},
        }

    def _needs_baseline(self) -> bool:
        """Whether its errors or times are unknown, or it is measured side by side."""
        if not self._bench.simulated:
            return True
        return any(
            w.baseline_accuracy is None or (w.timed and w.baseline_modelled_us is None)
            for w in self._spec.workloads
        )

    def _judged(self, builds: dict[str, Future[Built | BuildFailure]]) -> Evaluation:
        subject = builds["subject"].result()
        if isinstance(subject, BuildFailure):
            return build_failed(subject, self._shop.deadline_s)
        baseline = None
        if "baseline" in builds:
            baseline = sound_baseline(builds["baseline"].result())
        self.sandbox = subject.sandbox
        rejected, findings = admission(subject, baseline)
        if rejected is not None:
            return rejected
        known, base = self._baseline_facts(baseline)
        alone = self._spec.candidate is None
        held = Subject(
            program=self._program(subject, self._spec.subject.entry_symbol),
            cuda_runtime=str(self._shop.cuda_runtime),
            baseline=None if alone else known,
        )
        checked, failure = check(self._bench, held, self._spec.workloads)
        self._facts.update(checked.facts)
        if checked.sandbox:
            self.sandbox = f"build: {subject.sandbox}; children: {checked.sandbox}"
        if failure is not None:
            return failure
        if alone:
            known = checked.accuracy
        contestant = (
            held.program
            if baseline is None
            else self._program(baseline, self._spec.baseline.entry_symbol)
        )
        timed, failure = self._timed((contestant, held.program), checked, known)
        if failure is not None:
            return failure
        del base
        return self._passed(subject, checked, known, timed, findings)

    def _baseline_facts(
        self, baseline: Built | None
    ) -> tuple[dict[str, Accuracies], Checked | None]:
        """The baseline's errors by workload, from the job or by running it now."""
        workloads = self._spec.workloads
        known = {w.uuid: w.baseline_accuracy for w in workloads if w.baseline_accuracy is not None}
        missing = [w for w in workloads if w.uuid not in known]
        if baseline is None or not missing:
            return known, None
        subject = Subject(
            program=self._program(baseline, self._spec.baseline.entry_symbol),
            cuda_runtime=str(self._shop.cuda_runtime),
            baseline=None,
        )
        checked, failure = check(self._bench, subject, missing)
        sound_baseline(baseline, failure)
        return {**known, **checked.accuracy}, checked

    def _timed(
        self, programs: tuple[Program, Program], checked: Checked, known: dict[str, Accuracies]
    ) -> tuple[Timed, Evaluation | None]:
        workloads = [w for w in self._spec.workloads if w.timed]
        if not workloads or self._bench.simulated:
            return Timed(), None
        contest = Contest(
            programs=programs,
            cuda_runtime=str(self._shop.cuda_runtime),
            baseline_accuracy=known,
            digests=checked.digests,
        )
        timed, failure = measure(self._bench, contest, workloads)
        self._facts.update(timed.facts)
        return timed, failure

    def _passed(
        self,
        subject: Built,
        checked: Checked,
        known: dict[str, Accuracies],
        timed: Timed,
        findings: Sequence[str],
    ) -> Passed:
        return Passed(
            device="",
            workloads=tuple(self._row(w, checked, known, timed) for w in self._spec.workloads),
            resources=resources_of(subject),
            findings=tuple(findings),
            oracle=checked.oracle,
            geomean=timed.geomean(),
        )

    def _row(
        self,
        workload: WorkloadSpec,
        checked: Checked,
        known: dict[str, Accuracies],
        timed: Timed,
    ) -> WorkloadResult:
        was_checked = self._bench.prepared(workload).checked
        note = (
            ""
            if was_checked
            else "too large to check on a simulated device; a sample of blocks ran"
        )
        return WorkloadResult(
            uuid=workload.uuid,
            axes=dict(workload.axes),
            seed=workload.seed,
            accuracy=checked.accuracy.get(workload.uuid, ()),
            baseline_accuracy=known.get(workload.uuid, ()),
            checked=was_checked,
            note=note,
            timing=timed.timings.get(workload.uuid),
        )

    @staticmethod
    def _program(built: Built, symbol: str) -> Program:
        return Program(library=str(built.library), symbol=symbol)
