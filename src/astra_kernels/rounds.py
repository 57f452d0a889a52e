"""One round: diagnose and plan for the strategy's choice, carry plans out, judge, mend what failed.

Agents are asked from the history as it was when the round began, so that a round that was interrupted asks the
same again: what a rule says is the same, what a model said is in the log.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import zip_longest
from typing import TypeVar

from astra_kernels.errors import BudgetSpent
from astra_kernels.protocols import (
    CodingAgent,
    PlanningAgent,
    ProfilingAgent,
    Refusal,
    Strategy,
    TestingAgent,
)
from astra_kernels.records.candidate import Candidate
from astra_kernels.records.evaluation import (
    BuildFailed,
    Evaluation,
    Incorrect,
    Passed,
    Rejected,
    Unsafe,
)
from astra_kernels.records.history import Attempt, History, gain
from astra_kernels.records.journal import Journal
from astra_kernels.records.plan import Diagnosis, Plan
from astra_kernels.records.run import (
    CandidateEvaluated,
    CandidateScreened,
    CodingRefused,
    Diagnosed,
    Planned,
    RoundEnded,
    RunConfig,
)

_AT_ONCE = 8
"""Plans that are carried out side by side, at most: coders mostly wait for models."""

_RANKED = 8
"""Candidates that a screening device ranks, at most, for each that there is room for."""

Judges = Callable[[Sequence[Candidate]], Iterator[Evaluation]]
Screens = Callable[[Sequence[Candidate], bool], Iterator[Evaluation]]
"""As `Judges`; the flag asks for modelled times as well."""
Written = tuple[Plan, Candidate]
Item = TypeVar("Item")
Answer = tuple[Candidate, ...] | Refusal | BudgetSpent


@dataclass(frozen=True)
class Team:
    """The four roles, and who decides where to search."""

    testing: TestingAgent
    profiling: ProfilingAgent
    planning: PlanningAgent
    coding: CodingAgent
    strategy: Strategy


@dataclass
class Round:
    """A round that begins, or goes on where it was interrupted."""

    number: int
    config: RunConfig
    team: Team
    journal: Journal
    judge: Judges
    """Evaluations in the order of the candidates, each when it is known."""
    screen: Screens | None = None
    """The same on a device that is cheap to ask, where there is one."""
    spent: BudgetSpent | None = None
    """Why models could not be asked any more."""

    def __post_init__(self) -> None:
        self._known = self._history.before(self.number)
        self._mending: set[str] = set()

    @property
    def _history(self) -> History:
        return self.journal.history

    def run(self) -> None:
        """See it through, or stop in the middle when the strategy says that the search is over."""
        plans = self._history.plans.get(self.number)
        if plans is None:
            plans = self._planned()
        waiting = self._chosen(self._written(plans))
        for depth in range(self.config.repairs if self.screen else 0):
            waiting += self._screened(self._mended(depth))
        going = self._judge(waiting)
        for depth in range(self.config.repairs):
            going = going and self._judge(self._screened(self._mended(depth)))
        if self.spent is None and not self._over():
            self.journal.log(RoundEnded, round=self.number)

    def _planned(self) -> tuple[Plan, ...]:
        """Plans for every candidate that the strategy chooses: first the best of each."""
        try:
            parents = self.team.strategy.choose(self._known)
            branches = [
                self.team.planning.plan(parent, self._diagnosis(parent), self._known)
                for parent in parents
            ]
        except BudgetSpent as limit:
            self.spent = limit
            return ()
        plans = tuple(in_turn(branches))
        identifiers = tuple(p.id for p in parents)
        self.journal.log(Planned, round=self.number, plans=plans, parents=identifiers)
        return plans

    def _diagnosis(self, parent: Candidate) -> Diagnosis | None:
        evaluation = self._known.evaluation_of(parent.id)
        if not isinstance(evaluation, Passed):
            return None
        known = next((d for d in self._history.diagnoses if d.subject == parent.id), None)
        if known is not None:
            return known
        diagnosis = self.team.profiling.diagnose(parent, evaluation)
        self.journal.log(Diagnosed, round=self.number, diagnosis=diagnosis)
        return diagnosis

    def _written(self, plans: Sequence[Plan]) -> list[Written]:
        """Candidates for the first plans that the coder can carry out, plans in turn."""
        wanted = self.config.plans_per_round
        found: list[list[Written]] = []
        left = list(plans)
        while left and len(found) < wanted and self.spent is None:
            wave, left = left[: wanted - len(found)], left[wanted - len(found) :]
            for plan, answer in zip(wave, self._asked(self._write, wave), strict=True):
                if isinstance(answer, tuple):
                    found.append([(plan, candidate) for candidate in answer])
        unique = {w[1].id: w for w in in_turn(found) if self._is_new(w[1])}
        return list(unique.values())

    def _write(self, plan: Plan) -> Answer:
        parent = self._known.candidate(plan.parent)
        return self.team.coding.write(plan, parent, self._known)

    def _mended(self, depth: int) -> list[Written]:
        """One more candidate for each of this round's that failed after so many repairs.

        The coder is asked once for each, whatever it says.
        """
        own = {a.candidate.id: a for a in self._history.attempts if a.round == self.number}
        mended = {a.candidate.parent for a in own.values()} | self._mending
        failed = [
            a
            for identifier, a in own.items()
            if not isinstance(a.evaluation, Passed)
            and identifier not in mended
            and self._times_mended(a, own) == depth
        ]
        self._mending |= {a.candidate.id for a in failed}
        answers = zip(failed, self._asked(self._mend, failed), strict=True)
        return [
            (attempt.plan, candidate)
            for attempt, answer in answers
            if isinstance(answer, tuple)
            for candidate in answer
            if self._is_new(candidate)
        ]

    @staticmethod
    def _times_mended(attempt: Attempt, own: Mapping[str, Attempt]) -> int:
        """How many failed attempts of the round it comes from."""
        count = 0
        while (before := own.get(attempt.candidate.parent or "")) is not None:
            attempt, count = before, count + 1
        return count

    def _mend(self, attempt: Attempt) -> Answer:
        answer = self.team.coding.repair(
            attempt.plan, attempt.candidate, attempt.evaluation, self._known
        )
        return answer if isinstance(answer, Refusal) else (answer,)

    def _asked(
        self, ask: Callable[..., Answer], subjects: Sequence[Plan | Attempt]
    ) -> list[Answer]:
        """What the coder says to each, side by side; refusals are logged in the order of the subjects."""

        def answer(subject: Plan | Attempt) -> Answer:
            try:
                return ask(subject)
            except BudgetSpent as limit:
                return limit

        pool = ThreadPoolExecutor(max_workers=_AT_ONCE)
        try:
            answers = list(pool.map(answer, subjects))
        finally:  # an interrupt does not wait for models: who opened them calls them off
            pool.shutdown(wait=False, cancel_futures=True)
        for subject, said in zip(subjects, answers, strict=True):
            if isinstance(said, BudgetSpent):
                self.spent = said
            elif isinstance(said, Refusal):
                self._log_refusal(subject, said)
        return answers

    def _log_refusal(self, subject: Plan | Attempt, refusal: Refusal) -> None:
        plan = subject if isinstance(subject, Plan) else subject.plan
        known = [(r.round, r.plan.id, r.reason) for r in self._history.refusals]
        if (self.number, plan.id, refusal.reason) not in known:
            self.journal.log(
                CodingRefused,
                round=self.number,
                plan=plan,
                reason=refusal.reason,
                unanswered=refusal.unanswered,
            )

    def _is_new(self, candidate: Candidate) -> bool:
        return self._known.evaluation_of(candidate.id) is None

    def _waiting(self, written: Sequence[Written]) -> list[Written]:
        """What has not been judged, as far as the budget goes."""
        waiting = [w for w in written if self._history.evaluation_of(w[1].id) is None]
        limit = self.config.budget.candidates
        return waiting if limit is None else waiting[: max(0, limit - len(self._history.attempts))]

    def _chosen(self, written: Sequence[Written]) -> list[Written]:
        """What is left to be judged in a round: of each plan what was written first, as far as there is room.

        Where there is more than that and a screening device, of each plan what is fastest there.
        """
        room = self.config.candidates_per_round
        if self.screen is None or len(written) <= room:
            return self._screened(written[:room])
        written = written[: room * _RANKED]
        self._screened(written, rank=True)
        gains = {s.candidate.id: gain(s.evaluation) or 0.0 for s in self._ranking}
        by_plan: dict[str, list[Written]] = {}
        for plan, candidate in written:
            if candidate.id in gains:
                by_plan.setdefault(plan.id, []).append((plan, candidate))
        fastest = [sorted(w, key=lambda w: -gains[w[1].id]) for w in by_plan.values()]
        return list(in_turn(fastest))[:room]

    @property
    def _ranking(self) -> list[CandidateScreened]:
        return [s for s in self._history.screened if s.round == self.number]

    def _screened(self, written: Sequence[Written], *, rank: bool = False) -> list[Written]:
        """What is left to be judged on the device; what failed before, and times to rank by, are on record."""
        waiting = self._waiting(written)
        if self.screen is None:
            return waiting
        known = {s.candidate.id for s in self._ranking}
        waiting = [w for w in waiting if w[1].id not in known]
        left = []
        evaluations = self.screen([candidate for _, candidate in waiting], rank)
        for (plan, candidate), evaluation in zip(waiting, evaluations, strict=True):
            if fails_surely(evaluation, self.config.screen or ""):
                self._log_evaluation(plan, candidate, evaluation)
                continue
            left.append((plan, candidate))
            if rank:
                self.journal.log(
                    CandidateScreened,
                    round=self.number,
                    plan=plan,
                    candidate=candidate,
                    evaluation=evaluation,
                )
        return left

    def _log_evaluation(self, plan: Plan, candidate: Candidate, evaluation: Evaluation) -> None:
        self.journal.log(
            CandidateEvaluated,
            round=self.number,
            plan=plan,
            candidate=candidate,
            evaluation=evaluation,
        )

    def _judge(self, written: Sequence[Written]) -> bool:
        """Judge what has not been judged; False when the strategy says that the search is over."""
        waiting = self._waiting(written)
        evaluations = self.judge([candidate for _, candidate in waiting])
        for (plan, candidate), evaluation in zip(waiting, evaluations, strict=True):
            self._log_evaluation(plan, candidate, evaluation)
            if self._over():
                return False
        return self.spent is None

    def _over(self) -> bool:
        """Whether the strategy would stop even in the middle of a round."""
        self._history.elapsed_s = self.journal.elapsed_s
        return self.team.strategy.finished(self._history) is not None


def in_turn(rows: Sequence[Sequence[Item]]) -> Iterator[Item]:
    """The first of each row, then the second of each, and so on."""
    return (item for column in zip_longest(*rows) for item in column if item is not None)


_ONLY_THERE = frozenset({"not_simulated", "device_to_host", "stream"})
"""Rules by which a simulated device refuses what it cannot do or see."""


def fails_surely(evaluation: Evaluation, screen: str) -> bool:
    """Whether what failed on the screening device would fail on the other as well.

    A crash or a time-out may be the simulated device's own.
    """
    if evaluation.device != screen:
        return False
    if isinstance(evaluation, Rejected):
        return evaluation.rule not in _ONLY_THERE
    return isinstance(evaluation, BuildFailed | Incorrect | Unsafe)
