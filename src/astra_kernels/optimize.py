"""The loop: choose, diagnose, plan, write, evaluate, append. The log is the only state; resume is fold and go on."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, TypeVar

from astra_kernels.baseline import agreed_workloads, require_sound_baseline
from astra_kernels.errors import MachineFault
from astra_kernels.evaluation.confirm import Judge, second_look
from astra_kernels.protocols import (
    CodingAgent,
    Effort,
    Evaluator,
    PlanningAgent,
    ProfilingAgent,
    Refusal,
    Strategy,
    TestingAgent,
)
from astra_kernels.records.candidate import Candidate
from astra_kernels.records.confirmation import conclude
from astra_kernels.records.evaluation import Evaluation, Passed
from astra_kernels.records.history import Attempt, History, beats_baseline
from astra_kernels.records.plan import Plan
from astra_kernels.records.problem import Problem
from astra_kernels.records.run import (
    BaselineEvaluated,
    CandidateEvaluated,
    CodingRefused,
    Diagnosed,
    Event,
    EventBase,
    MachineFaulted,
    Planned,
    RoundEnded,
    RunConfig,
    RunFinished,
    WinnerRemeasured,
    WorkloadsProposed,
)
from astra_kernels.records.workload import Workload

_AnyEvent = TypeVar("_AnyEvent", bound=EventBase)
_REMEASURED = 3
"""How many of the fastest are tried again, at most, until one holds."""


@dataclass(frozen=True)
class Team:
    """The four roles, and who decides where to search."""

    testing: TestingAgent
    profiling: ProfilingAgent
    planning: PlanningAgent
    coding: CodingAgent
    strategy: Strategy


@dataclass
class Optimizer:
    """Runs one problem to the end of its budget, or goes on with a run that was interrupted."""

    problem: Problem
    config: RunConfig
    team: Team
    evaluator: Evaluator
    history: History
    write: Callable[[Event], None]
    """Appends an event to the log; it is durable when this returns."""
    fresh_seed: Callable[[], int]
    """A seed that nobody could have known before; for the winner's second look."""
    elsewhere: Judge | None = None
    """Judges on a second device, where there is one."""
    _started: float = field(default_factory=time.monotonic)
    _before_s: float = 0.0

    def __post_init__(self) -> None:
        self._before_s = self.history.elapsed_s

    def run(self) -> History:
        """Go on until the strategy says that the search is over; returns the history.

        Raises:
            ProblemError: the baseline does not build, does not run, or disagrees with its own reference.
            MachineFault: the machine failed repeatedly; the run can be resumed.
        """
        if self.history.finished is not None:
            return self.history
        self._judge_baseline()
        self._propose_workloads()
        while (reason := self.team.strategy.finished(self.history)) is None:
            self._round(self.history.rounds_ended + 1)
        self._finish(reason)
        return self.history

    def _round(self, number: int) -> None:
        """One round: the first plan that the coding agent can carry out is tried.

        A round that was interrupted goes on with the plans it had, so that it ends as it would have.
        """
        plans = self.history.plans.get(number)
        for plan in self._planned(number) if plans is None else plans:
            if self.history.was_refused(number, plan):
                continue
            tried = self.history.tried(number, plan)
            if tried >= self.config.candidates_per_round:
                break
            parent = self.history.candidate(plan.parent)
            written = self.team.coding.write(plan, parent, self.history)
            if isinstance(written, Refusal):
                if tried:
                    break
                self._log(CodingRefused, round=number, plan=plan, reason=written.reason)
                continue
            for candidate in written[: self.config.candidates_per_round - tried]:
                if self.history.evaluation_of(candidate.id) is None:
                    self._try(number, plan, candidate)
                if self._out_of_budget():
                    return
            break
        self._log(RoundEnded, round=number)

    def _planned(self, number: int) -> tuple[Plan, ...]:
        """Diagnose the strategy's choice and plan for it."""
        (parent,) = self.team.strategy.choose(self.history)
        evaluation = self.history.evaluation_of(parent.id)
        diagnosis = None
        if isinstance(evaluation, Passed):
            diagnosis = self.team.profiling.diagnose(parent, evaluation)
            self._log(Diagnosed, round=number, diagnosis=diagnosis)
        plans = self.team.planning.plan(parent, diagnosis, self.history)
        self._log(Planned, round=number, plans=plans)
        return plans

    def _out_of_budget(self) -> bool:
        """Whether the strategy would stop even in the middle of a round."""
        self.history.elapsed_s = self._elapsed_s()
        return self.team.strategy.finished(self.history) is not None

    def _try(self, number: int, plan: Plan, candidate: Candidate) -> None:
        evaluation = self._evaluate(candidate, self._workloads())
        self._log(
            CandidateEvaluated, round=number, plan=plan, candidate=candidate, evaluation=evaluation
        )

    def _evaluate(
        self,
        candidate: Candidate,
        workloads: tuple[Workload, ...],
        seed: int | None = None,
    ) -> Evaluation:
        """Judge for the search with the run's seed; or, with a fresh seed, to confirm."""
        effort: Effort = "search" if seed is None else "confirm"
        try:
            return self.evaluator.evaluate(
                candidate, workloads, self.config.seed if seed is None else seed, effort
            )
        except MachineFault as fault:
            self._log(MachineFaulted, candidate=candidate.id, detail=str(fault))
            raise

    def _workloads(self) -> tuple[Workload, ...]:
        return (*self.problem.workloads, *self.history.accepted_workloads)

    def _judge_baseline(self) -> None:
        """Refuse a problem whose baseline fails its own reference, before any candidate is made."""
        if self.history.baseline_evaluation is None:
            baseline = self.problem.baseline
            evaluation = self._evaluate(baseline, self.problem.workloads)
            self._log(BaselineEvaluated, candidate=baseline, evaluation=evaluation)
        require_sound_baseline(self.problem, self.history.baseline_evaluation)

    def _propose_workloads(self) -> None:
        """A proposal counts only after the baseline itself agrees with the reference on it."""
        if self.history.workloads_proposed:
            return
        accepted, refused = agreed_workloads(
            self.team.testing.propose(self.problem),
            lambda workloads: self._evaluate(self.problem.baseline, workloads),
        )
        self._log(WorkloadsProposed, accepted=accepted, refused=refused)

    def _finish(self, reason: str) -> None:
        """Look at the fastest candidates a second time, with fresh seeds, until one holds."""
        winner: Attempt | None = None
        seen = {r.candidate: r.holds for r in self.history.remeasured}
        contenders = [a for a in self.history.ranked() if beats_baseline(a.evaluation)]
        for attempt in contenders[:_REMEASURED]:
            identifier = attempt.candidate.id
            if identifier not in seen:
                look = second_look(
                    self.problem,
                    attempt.candidate,
                    self._workloads(),
                    lambda c, w: self._evaluate(c, w, self.fresh_seed()),
                    self.elsewhere,
                )
                refuted = conclude(look).verdict == "refuted"
                holds = beats_baseline(look.evaluation) and not refuted
                seen[identifier] = holds
                self._log(WinnerRemeasured, candidate=identifier, holds=holds, **vars(look))
            if seen[identifier]:
                winner = attempt
                break
        self._log(RunFinished, reason=reason, best=winner.candidate.id if winner else None)

    def _elapsed_s(self) -> float:
        return self._before_s + time.monotonic() - self._started

    def _log(self, kind: type[_AnyEvent], **fields: Any) -> None:
        now = datetime.now(UTC).isoformat(timespec="milliseconds")
        event: Any = kind(at=now, elapsed_s=self._elapsed_s(), **fields)
        self.write(event)
        self.history.append(event)
