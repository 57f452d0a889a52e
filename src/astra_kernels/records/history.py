"""The log of a run, folded: what agents and strategies may know. A pure function of the events."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from astra_kernels.records.candidate import Candidate
from astra_kernels.records.evaluation import Evaluation, Measured, Modelled, Passed
from astra_kernels.records.model_calls import Ledger
from astra_kernels.records.plan import Diagnosis, Plan
from astra_kernels.records.run import (
    BaselineEvaluated,
    CandidateEvaluated,
    CandidateScreened,
    CodingRefused,
    Diagnosed,
    Event,
    ModelAnswered,
    ModelAsked,
    ModelFailed,
    Planned,
    RoundEnded,
    RunConfig,
    RunFinished,
    RunStarted,
    WinnerRemeasured,
    WorkloadsProposed,
)
from astra_kernels.records.workload import Workload


@dataclass(frozen=True)
class Attempt:
    """One candidate that was judged."""

    round: int
    plan: Plan
    candidate: Candidate
    evaluation: Evaluation


def gain(evaluation: Evaluation | None) -> float | None:
    """Baseline time over candidate time, measured or modelled; None when not passed or not established."""
    if isinstance(evaluation, Passed):
        match evaluation.geomean:
            case Measured(ratio=ratio):
                return ratio
            case Modelled(gain=modelled):
                return modelled
    return None


@dataclass
class History:
    """What has happened so far in one run; `append` keeps it equal to the fold of the log."""

    started: RunStarted | None = None
    config: RunConfig | None = None
    problem_digest: str = ""
    baseline: Candidate | None = None
    baseline_evaluation: Evaluation | None = None
    workloads_proposed: bool = False
    accepted_workloads: tuple[Workload, ...] = ()
    unasked: str = ""
    """Why a model could not be asked for workloads."""
    attempts: list[Attempt] = field(default_factory=list)
    screened: list[CandidateScreened] = field(default_factory=list)
    """What a screening device modelled, where there was more than a round judges."""
    refusals: list[CodingRefused] = field(default_factory=list)
    diagnoses: list[Diagnosis] = field(default_factory=list)
    plans: dict[int, tuple[Plan, ...]] = field(default_factory=dict)
    parents: dict[int, tuple[str, ...]] = field(default_factory=dict)
    """Candidates that were planned for, by round."""
    ledger: Ledger = field(default_factory=Ledger)
    rounds_ended: int = 0
    elapsed_s: float = 0.0
    remeasured: list[WinnerRemeasured] = field(default_factory=list)
    finished: RunFinished | None = None

    @property
    def round(self) -> int:
        """The round that the run is in; 0 while the workloads are not settled."""
        return self.rounds_ended + 1 if self.workloads_proposed else 0

    @staticmethod
    def fold(events: Iterable[Event]) -> History:
        """The history that `events` tell."""
        history = History()
        for event in events:
            history.append(event)
        return history

    def append(self, event: Event) -> None:
        """Take in one more event."""
        self.elapsed_s = max(self.elapsed_s, event.elapsed_s)
        match event:
            case RunStarted():
                self.started = event
                self.config, self.problem_digest = event.config, event.problem_digest
            case BaselineEvaluated():
                self.baseline, self.baseline_evaluation = event.candidate, event.evaluation
            case WorkloadsProposed():
                self.workloads_proposed, self.accepted_workloads = True, event.accepted
                self.unasked = event.unasked
            case Diagnosed():
                self.diagnoses.append(event.diagnosis)
            case Planned():
                self.plans[event.round] = event.plans
                self.parents[event.round] = event.parents
            case CodingRefused():
                self.refusals.append(event)
            case CandidateEvaluated():
                self.attempts.append(
                    Attempt(event.round, event.plan, event.candidate, event.evaluation)
                )
            case CandidateScreened():
                self.screened.append(event)
            case ModelAsked() | ModelAnswered() | ModelFailed():
                self.ledger.take(event)
            case RoundEnded():
                self.rounds_ended = event.round
            case WinnerRemeasured():
                self.remeasured.append(event)
            case RunFinished():
                self.finished = event

    def before(self, number: int) -> History:
        """What was known when a round began: agents are asked from this, so that a resumed round asks the same."""
        return replace(
            self,
            attempts=[a for a in self.attempts if a.round < number],
            refusals=[r for r in self.refusals if r.round < number],
            plans={n: plans for n, plans in self.plans.items() if n < number},
        )

    def ranked(self) -> list[Attempt]:
        """Attempts that passed with a time, fastest first; of equals the earlier."""
        timed = [a for a in self.attempts if gain(a.evaluation) is not None]
        return sorted(timed, key=lambda a: -(gain(a.evaluation) or 0.0))

    def fastest(self) -> Attempt | None:
        """The fastest attempt whose time is below the baseline's, by however little, or None: where to search on."""
        return next((a for a in self.ranked() if (gain(a.evaluation) or 0.0) > 1.0), None)

    def evaluation_of(self, candidate_id: str) -> Evaluation | None:
        """The latest evaluation of a candidate, the baseline included."""
        for attempt in reversed(self.attempts):
            if attempt.candidate.id == candidate_id:
                return attempt.evaluation
        if self.baseline is not None and self.baseline.id == candidate_id:
            return self.baseline_evaluation
        return None

    def candidate(self, candidate_id: str) -> Candidate:
        """A candidate of this run, the baseline included.

        Raises:
            KeyError: the run has none of that name.
        """
        if self.baseline is not None and self.baseline.id == candidate_id:
            return self.baseline
        for attempt in self.attempts:
            if attempt.candidate.id == candidate_id:
                return attempt.candidate
        raise KeyError(candidate_id)

    def tried(self, number: int, plan: Plan) -> int:
        """How many candidates of a plan were judged in a round."""
        return sum(a.round == number and a.plan.id == plan.id for a in self.attempts)
