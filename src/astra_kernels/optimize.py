"""The loop: round after round until the search is over, then a second look at the best.

The log is the only state; resume is fold and go on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from astra_kernels.baseline import lay_groundwork, require_sound_baseline
from astra_kernels.errors import BudgetSpent, MachineFault
from astra_kernels.evaluation.confirm import Judge, second_look
from astra_kernels.protocols import Effort, Evaluator
from astra_kernels.records.candidate import Candidate
from astra_kernels.records.confirmation import conclude
from astra_kernels.records.evaluation import Evaluation
from astra_kernels.records.history import History
from astra_kernels.records.journal import Journal
from astra_kernels.records.problem import Problem
from astra_kernels.records.run import (
    BaselineEvaluated,
    MachineFaulted,
    RunConfig,
    RunFinished,
    WinnerRemeasured,
    WorkloadsProposed,
)
from astra_kernels.records.wins import beats_baseline, guarded_gain, won_workloads
from astra_kernels.records.workload import Workload
from astra_kernels.rounds import Round, Team

Screen = Callable[[Sequence[Candidate], tuple[Workload, ...]], Iterator[Evaluation]]
"""Judges on a device that is cheap to ask."""

_REMEASURED = 3
"""How many of the fastest are tried again, at most, until one holds."""


@dataclass
class Optimizer:
    """Runs one problem to the end of its budget, or goes on with a run that was interrupted."""

    problem: Problem
    config: RunConfig
    team: Team
    evaluator: Evaluator
    journal: Journal
    fresh_seed: Callable[[], int]
    """A seed that nobody could have known before; for the winner's second look."""
    screen: Screen | None = None
    """Looks first: what is sure to fail is not judged on the device."""
    elsewhere: Judge | None = None
    """Judges on a second device, where there is one."""

    @property
    def history(self) -> History:
        """What has happened so far."""
        return self.journal.history

    def run(self) -> History:
        """Go on until the strategy says that the search is over; returns the history.

        Raises:
            ProblemError: the baseline does not build, does not run, or disagrees with its own reference.
            MachineFault: the machine failed repeatedly; the run can be resumed.
            ModelRejected: a provider refuses every request; the run can be resumed.
        """
        if self.history.finished is not None:
            return self.history
        self._judge_baseline()
        try:
            if self.history.unasked:
                raise BudgetSpent(self.history.unasked)
            self.end(self._search())
        except BudgetSpent as limit:
            self.end(str(limit), spent_in=0 if self.history.unasked else self.history.round)
        return self.history

    def end(self, reason: str, *, spent_in: int | None = None) -> None:
        """Give the best a second look and finish; `spent_in` is the round in which a model could not be asked any more.

        Raises:
            MachineFault: the machine failed repeatedly; the run can be resumed.
        """
        best = self._held()
        self.journal.log(RunFinished, reason=reason, best=best, spent_in=spent_in)

    def _search(self) -> str:
        """Round after round; returns why it ended.

        Raises:
            BudgetSpent: a model may not be asked any more.
        """
        while (reason := self.team.strategy.finished(self.history)) is None:
            current = Round(
                self.history.rounds_ended + 1,
                self.config,
                self.team,
                self.journal,
                self._judged,
                screen=self._screened if self.screen else None,
            )
            current.run()
            if current.spent is not None:
                raise current.spent
        return reason

    def _judged(self, candidates: Sequence[Candidate]) -> Iterator[Evaluation]:
        """Evaluations for the search, in the order of the candidates, each when it is known."""
        try:
            yield from self.evaluator.evaluate_all(
                candidates, self._workloads(), self.config.seed, "search"
            )
        except MachineFault as fault:
            self.journal.log(MachineFaulted, candidate="", detail=str(fault))
            raise

    def _screened(self, candidates: Sequence[Candidate], timed: bool) -> Iterator[Evaluation]:
        assert self.screen is not None
        untimed = {} if timed else {"timed": False}
        return self.screen(
            candidates, tuple(w.model_copy(update=untimed) for w in self._workloads())
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
            self.journal.log(MachineFaulted, candidate=candidate.id, detail=str(fault))
            raise

    def _workloads(self) -> tuple[Workload, ...]:
        return (*self.problem.workloads, *self.history.accepted_workloads)

    def _judge_baseline(self) -> None:
        """Refuse a problem whose baseline fails its own reference, before any candidate is made.

        It is judged on what the testing agent proposes as well: a proposal counts only where it agrees.
        """
        if self.history.baseline_evaluation is None:
            known = self.history.workloads_proposed  # and a fault came before the baseline's turn
            proposals, unasked = self.history.accepted_workloads, ""
            if not known:
                proposals, unasked = self._proposals()
            baseline = self.problem.baseline
            found = lay_groundwork(
                self.problem, proposals, lambda workloads: self._evaluate(baseline, workloads)
            )
            if not known:
                self.journal.log(
                    WorkloadsProposed,
                    accepted=found.accepted,
                    refused=found.refused,
                    evaluations=found.disagreements,
                    unasked=unasked,
                )
            self.journal.log(BaselineEvaluated, candidate=baseline, evaluation=found.evaluation)
        require_sound_baseline(self.problem, self.history.baseline_evaluation)

    def _proposals(self) -> tuple[tuple[Workload, ...], str]:
        """What the testing agent proposes, and why it could not be asked; then the baseline is judged all the same."""
        try:
            return self.team.testing.propose(self.problem), ""
        except BudgetSpent as limit:
            return (), str(limit)

    def _held(self) -> str | None:
        """Look at the fastest candidates a second time, with fresh seeds, until one holds; returns which, if any.

        Where none does, the one that gains most at sizes that it wins by themselves gets the look: it may be of use
        behind a condition.
        """
        contenders = [a for a in self.history.ranked() if beats_baseline(a.evaluation)]
        for attempt in contenders[:_REMEASURED]:
            if self._holds(attempt.candidate):
                return attempt.candidate.id
        some = [a for a in self.history.attempts if won_workloads(a.evaluation)]
        if some:
            self._holds(max(some, key=lambda a: guarded_gain(a.evaluation)).candidate)
        return None

    def _holds(self, candidate: Candidate) -> bool:
        """The verdict of the second look at a candidate, which is taken if it was not before."""
        for known in self.history.remeasured:
            if known.candidate == candidate.id:
                return known.holds
        look = second_look(
            self.problem,
            candidate,
            self._workloads(),
            lambda c, w: self._evaluate(c, w, self.fresh_seed()),
            self.elsewhere,
        )
        refuted = conclude(look).verdict == "refuted"
        holds = beats_baseline(look.evaluation) and not refuted
        self.journal.log(WinnerRemeasured, candidate=candidate.id, holds=holds, **vars(look))
        return holds
