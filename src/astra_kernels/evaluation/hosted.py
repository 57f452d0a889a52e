"""Judges by jobs: candidates become jobs, a host runs them, here or elsewhere, and their results become evaluations."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

from astra_kernels.evaluation.redaction import redacted
from astra_kernels.evaluation.stage import JobRequest, KnownBaseline
from astra_kernels.jobs.spec import Limits
from astra_kernels.protocols import Effort
from astra_kernels.records.candidate import Candidate
from astra_kernels.records.evaluation import Evaluation, Modelled, Passed
from astra_kernels.records.problem import Problem
from astra_kernels.records.workload import Workload

TIMING_PROCESSES: Mapping[Effort, int] = {"search": 1, "confirm": 3}


Pulse = Callable[[tuple[str, ...]], None]
"""Called several times a second while a job runs, with the stages that it has been through, as far as they are known.
What it raises ends the wait, and the job where that can be."""


@dataclass(frozen=True)
class Answer:
    """What came of a job, in full, and the seeds that it was drawn from."""

    evaluation: Evaluation
    seed: int
    hidden_seed: int | None


class Pending(Protocol):
    """A job that was handed over."""

    def collect(self) -> Answer:
        """Its answer, when there is one.

        Raises:
            MachineFault: the machine failed, repeatedly.
            UserError: the job cannot be run as asked: unknown device, a reference that raises.
            SetupError: a tool or package is missing where it runs.
        """
        ...


class Host(Protocol):
    """Where jobs of one problem run."""

    def submit(self, request: JobRequest) -> Pending:
        """Hand a job over; whether it starts now or when it is collected is the host's affair.

        Raises:
            MachineFault: it cannot be written.
        """
        ...


@dataclass(frozen=True)
class Terms:
    """What every job of an evaluator is held to."""

    limits: Limits = field(default_factory=Limits)
    safety: bool = False
    """Whether jobs that confirm run the safety tools too."""


class HostedEvaluator:
    """Judges candidates of one problem on one device, by jobs that a host runs."""

    def __init__(
        self, problem: Problem, device: str, host: Host, terms: Terms | None = None
    ) -> None:
        self._problem = problem
        self._device = device
        self._host = host
        self._terms = terms or Terms()
        self._known: dict[int, KnownBaseline] = {}

    def evaluate(
        self, candidate: Candidate, workloads: tuple[Workload, ...], seed: int, effort: Effort
    ) -> Evaluation:
        """Judge `candidate` on `workloads`, inputs drawn from `seed`, and on hidden ones drawn now.

        Of the hidden ones a search is told the kinds only.

        Raises:
            MachineFault: the machine failed, repeatedly.
            UserError: the job cannot be run as asked: unknown device, a reference that raises.
            SetupError: the worker lacks a tool or package.
        """
        return next(self.evaluate_all((candidate,), workloads, seed, effort))

    def evaluate_all(
        self,
        candidates: Sequence[Candidate],
        workloads: tuple[Workload, ...],
        seed: int,
        effort: Effort,
    ) -> Iterator[Evaluation]:
        """Judge `candidates` alike; all jobs are handed over before this returns.

        Raises:
            MachineFault: a job cannot be written. Whatever `evaluate` raises, when the evaluation is asked for.
        """
        pending = [
            (c, self._host.submit(self._request(c, workloads, seed, effort))) for c in candidates
        ]
        return (self._told(candidate, job.collect(), effort) for candidate, job in pending)

    def on(self, device: str) -> HostedEvaluator:
        """The same for another device of the same host."""
        return HostedEvaluator(self._problem, device, self._host, self._terms)

    def learn_baseline(self, evaluation: Evaluation, seed: int) -> None:
        """Take over what an earlier session of the run established about the baseline."""
        self._learn(self._problem.baseline, seed, evaluation)

    def _request(
        self, candidate: Candidate, workloads: tuple[Workload, ...], seed: int, effort: Effort
    ) -> JobRequest:
        return JobRequest(
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

    def _limits(self, effort: Effort) -> Limits:
        confirm = effort == "confirm"
        processes = TIMING_PROCESSES[effort]
        return replace(self._terms.limits, processes=processes, warm=confirm, alone=confirm)

    def _wants_safety(self, candidate: Candidate, effort: Effort) -> bool:
        """Candidates only: what the baseline does wrong is looked up when a candidate does it too."""
        baseline = candidate.id == self._problem.baseline.id
        return self._terms.safety and effort == "confirm" and not baseline

    def _told(self, candidate: Candidate, answer: Answer, effort: Effort) -> Evaluation:
        self._learn(candidate, answer.seed, answer.evaluation)
        if effort == "search":
            return redacted(answer.evaluation)
        return replace(answer.evaluation, hidden_seed=answer.hidden_seed)

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
