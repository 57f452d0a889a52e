"""Evaluates on this machine: stage a job directory, host it in a process of its own, read the result back."""

from __future__ import annotations

import os
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from astra_kernels.errors import MachineFault, SetupError, UserError
from astra_kernels.evaluation.redaction import redacted
from astra_kernels.evaluation.stage import JobRequest, KnownBaseline, stage_job
from astra_kernels.jobs.sanitizer import TOOLS
from astra_kernels.jobs.spec import RESULT_FILE, JobSpec, Limits
from astra_kernels.protocols import Effort
from astra_kernels.records.candidate import Candidate
from astra_kernels.records.evaluation import Evaluation, Modelled, Passed
from astra_kernels.records.problem import Problem
from astra_kernels.records.run import JudgedEvaluation
from astra_kernels.records.workload import Workload

_RESULT: TypeAdapter[Evaluation] = TypeAdapter(JudgedEvaluation)
TIMING_PROCESSES: Mapping[Effort, int] = {"search": 1, "confirm": 3}
_ATTEMPTS = 2
"""A machine fault is retried once before it ends the run."""


@dataclass(frozen=True)
class Host:
    """Where and how jobs run on this machine."""

    scratch: Path
    """Job directories are made here and removed when read."""
    environment: Mapping[str, str]
    """The worker's whole environment; candidates see less still."""
    data_root: Path
    """Where the problem's safetensors files lie."""
    builds: Path
    """Builds are kept here by content, and shared between jobs and runs."""
    limits: Limits = field(default_factory=Limits)
    safety: bool = False
    """Whether jobs that confirm run the safety tools too."""


class LocalEvaluator:
    """Judges candidates of one problem on one device of this machine."""

    def __init__(self, problem: Problem, device: str, host: Host) -> None:
        self._problem = problem
        self._device = device
        self._host = host
        self._known: dict[int, KnownBaseline] = {}

    def evaluate(
        self, candidate: Candidate, workloads: tuple[Workload, ...], seed: int, effort: Effort
    ) -> Evaluation:
        """Judge `candidate` on `workloads`, inputs drawn from `seed`, and on hidden ones drawn now.

        Of the hidden ones a search is told the kinds only.

        Raises:
            MachineFault: the machine failed twice in a row.
            UserError: the job cannot be run as asked: unknown device, a reference that raises.
            SetupError: the worker lacks a tool or package.
        """
        request = JobRequest(
            device=self._device,
            candidate=candidate,
            workloads=workloads,
            seed=seed,
            known=self._known.get(seed, KnownBaseline()),
            limits=self._limits(effort),
            profile=effort == "search",
            safety=self._wants_safety(candidate, effort),
            hidden_seed=secrets.randbits(64),
        )
        for attempt in range(1, _ATTEMPTS + 1):
            try:
                evaluation = self._run(request)
            except MachineFault:
                if attempt == _ATTEMPTS:
                    raise
                continue
            self._learn(candidate, seed, evaluation)
            if effort == "search":
                return redacted(evaluation)
            return replace(evaluation, hidden_seed=request.hidden_seed)
        raise AssertionError("unreachable")

    def evaluate_all(
        self,
        candidates: Sequence[Candidate],
        workloads: tuple[Workload, ...],
        seed: int,
        effort: Effort,
    ) -> Iterator[Evaluation]:
        """Judge several, one after the other, in their order."""
        return (self.evaluate(c, workloads, seed, effort) for c in candidates)

    def _limits(self, effort: Effort) -> Limits:
        confirm = effort == "confirm"
        processes = TIMING_PROCESSES[effort]
        return replace(self._host.limits, processes=processes, warm=confirm, alone=confirm)

    def on(self, device: str) -> LocalEvaluator:
        """The same for another device of this machine."""
        return LocalEvaluator(self._problem, device, self._host)

    def _wants_safety(self, candidate: Candidate, effort: Effort) -> bool:
        """Candidates only: what the baseline does wrong is looked up when a candidate does it too."""
        baseline = candidate.id == self._problem.baseline.id
        return self._host.safety and effort == "confirm" and not baseline

    def learn_baseline(self, evaluation: Evaluation, seed: int) -> None:
        """Take over what an earlier session of the run established about the baseline."""
        self._learn(self._problem.baseline, seed, evaluation)

    def _learn(self, candidate: Candidate, seed: int, evaluation: Evaluation) -> None:
        """Remember the baseline's errors and modelled times, so that later jobs need not run it again."""
        if candidate.id != self._problem.baseline.id or not isinstance(evaluation, Passed):
            return
        known = self._known.get(seed, KnownBaseline())
        public = [w for w in evaluation.workloads if not w.hidden]
        accuracy = {w.uuid: w.accuracy for w in public if w.checked}
        modelled = {w.uuid: w.timing.candidate_us for w in public if isinstance(w.timing, Modelled)}
        self._known[seed] = replace(
            known,
            accuracy={**known.accuracy, **accuracy},
            modelled_us={**known.modelled_us, **modelled},
            consistency=evaluation.consistency,
        )

    def _run(self, request: JobRequest) -> Evaluation:
        try:
            parent = Path(tempfile.mkdtemp(prefix="job.", dir=self._host.scratch))
        except OSError as error:
            raise MachineFault(
                f"{self._host.scratch}: no room for a job: {error.strerror or error}"
            ) from None
        try:
            job = parent / "job"
            spec = stage_job(self._problem, self._host.data_root, request, job)
            self._host_job(job, spec)
            return read_result(job)
        finally:
            shutil.rmtree(parent, ignore_errors=True)

    def _host_job(self, job: Path, spec: JobSpec) -> None:
        """Run the worker on one job directory, in a session of its own, under a deadline."""
        process = subprocess.Popen(
            [
                sys.executable,
                "-P",  # the directory that the user stands in holds no modules of ours
                "-m",
                "astra_kernels.jobs",
                str(job),
                "--cache",
                str(self._host.builds),
            ],
            env=dict(self._host.environment),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            output, _ = process.communicate(timeout=_deadline_s(spec))
        except subprocess.TimeoutExpired:
            raise MachineFault(
                "the worker did not end by its own deadlines and was stopped"
            ) from None
        finally:
            _stop(process)
        message = output.decode(errors="replace").strip().splitlines()[-1:] or ["no message"]
        for kind in (UserError, SetupError):
            if process.returncode == kind.exit_code:
                raise kind(message[0])
        if process.returncode != 0 or not (job / RESULT_FILE).is_file():
            raise MachineFault(f"the worker ended with code {process.returncode}: {message[0]}")


def read_result(job: Path) -> Evaluation:
    """The evaluation that a worker wrote.

    Raises:
        MachineFault: when there is none, or it is damaged.
    """
    try:
        return _RESULT.validate_json((job / RESULT_FILE).read_bytes())
    except (OSError, ValidationError) as error:
        raise MachineFault(f"{job / RESULT_FILE}: no usable result: {error}") from None


def _deadline_s(spec: JobSpec) -> float:
    """The sum of the stages' own deadlines, twice over for baseline and candidate, and some air."""
    limits = spec.limits
    answers = limits.oracle_s * len(spec.workloads)
    tools = len(TOOLS) * limits.safety_s if spec.safety else 0.0
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
