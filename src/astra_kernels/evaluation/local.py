"""Runs jobs on this machine: stage a job directory, host it in a process of its own, read the result back."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from pydantic import ConfigDict, TypeAdapter, ValidationError

from astra_kernels.errors import MachineFault
from astra_kernels.evaluation.hosted import Answer, Pulse
from astra_kernels.evaluation.stage import JobRequest, stage_job
from astra_kernels.jobs.hosting import host_job
from astra_kernels.jobs.spec import RESULT_FILE, STAGES_FILE, JobSpec
from astra_kernels.records.evaluation import Evaluation
from astra_kernels.records.problem import Problem
from astra_kernels.records.run import JudgedEvaluation

_RESULT: TypeAdapter[Evaluation] = TypeAdapter(
    JudgedEvaluation, config=ConfigDict(defer_build=True)
)
_ATTEMPTS = 2
"""A machine fault is retried once before it ends the run."""
_PULSE_S = 0.2


@dataclass(frozen=True)
class LocalHost:
    """Runs jobs of one problem on this machine, each when it is collected."""

    problem: Problem
    scratch: Path
    """Job directories are made here and removed when read."""
    environment: Mapping[str, str]
    """The worker's whole environment; candidates see less still."""
    data_root: Path
    """Where the problem's safetensors files lie."""
    builds: Path
    """Builds are kept here by content, and shared between jobs and runs."""
    pulse: Pulse | None = None

    def submit(self, request: JobRequest) -> LocalJob:
        """Take note of a job."""
        return LocalJob(self, request)


@dataclass(frozen=True)
class LocalJob:
    """A job that runs when it is collected."""

    host: LocalHost
    request: JobRequest

    def collect(self) -> Answer:
        """Run it.

        Raises:
            MachineFault: the machine failed twice in a row.
            UserError: the job cannot be run as asked.
            SetupError: the worker lacks a tool or package.
        """
        for attempt in range(1, _ATTEMPTS + 1):
            try:
                return Answer(self._run(), self.request.seed, self.request.hidden_seed)
            except MachineFault:
                if attempt == _ATTEMPTS:
                    raise
        raise AssertionError("unreachable")

    def _run(self) -> Evaluation:
        host = self.host
        try:
            parent = Path(tempfile.mkdtemp(prefix="job.", dir=host.scratch))
        except OSError as error:
            raise MachineFault(
                f"{host.scratch}: no room for a job: {error.strerror or error}"
            ) from None
        try:
            job = parent / "job"
            spec = stage_job(host.problem, host.data_root, self.request, job)
            self._hosted(job, spec)
            return read_result(job)
        finally:
            shutil.rmtree(parent, ignore_errors=True)

    def _hosted(self, job: Path, spec: JobSpec) -> None:
        host, pulse = self.host, self.host.pulse
        if pulse is None:
            host_job(job, spec, host.environment, host.builds)
            return
        host_job(
            job,
            spec,
            host.environment,
            host.builds,
            pulse=lambda: pulse(_stages(job)),
            pulse_s=_PULSE_S,
        )


def _stages(job: Path) -> tuple[str, ...]:
    """Stages that a job has been through."""
    try:
        return tuple((job / STAGES_FILE).read_text(encoding="utf-8").split())
    except OSError:
        return ()


def read_result(job: Path) -> Evaluation:
    """The evaluation that a worker wrote.

    Raises:
        MachineFault: when there is none, or it is damaged.
    """
    try:
        return _RESULT.validate_json((job / RESULT_FILE).read_bytes())
    except (OSError, ValidationError) as error:
        raise MachineFault(f"{job / RESULT_FILE}: no usable result: {error}") from None
