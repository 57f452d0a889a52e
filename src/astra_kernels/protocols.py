"""The seams, on one page. Each has at least two implementations, or will have by design.

Deliberately not seams: the judge, the timing statistics, the run log. A plug-in judge is a hole.
Whatever a role does may raise BudgetSpent: a language model may not be asked any more.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from astra_kernels.records.candidate import Candidate
from astra_kernels.records.evaluation import Evaluation, Passed
from astra_kernels.records.history import History
from astra_kernels.records.plan import Diagnosis, Plan
from astra_kernels.records.problem import Problem
from astra_kernels.records.workload import Workload

Effort = Literal["search", "confirm"]
"""`search`: one timing process, with counters for the next diagnosis; of hidden workloads it tells the kinds only.
`confirm`: several processes, for figures that are reported, and hidden workloads in full."""


@dataclass(frozen=True)
class Refusal:
    """A coding agent's reasoned no; or `unanswered`, for want of a model's answer: nothing is said against the plan."""

    reason: str
    unanswered: bool = False


class FreshSeed(int):
    """A seed that was drawn after the candidate was fixed; any other such seed does as well.

    An evaluator that goes on with a question it was asked before keeps the seed that was drawn then.
    """


class Evaluator(Protocol):
    """Judges candidates of one problem on one device."""

    def evaluate(
        self, candidate: Candidate, workloads: tuple[Workload, ...], seed: int, effort: Effort
    ) -> Evaluation:
        """Judge `candidate` on `workloads`, inputs drawn from `seed`; the baseline may be judged too.

        Raises:
            MachineFault: the machine failed, repeatedly.
        """
        ...

    def evaluate_all(
        self,
        candidates: Sequence[Candidate],
        workloads: tuple[Workload, ...],
        seed: int,
        effort: Effort,
    ) -> Iterator[Evaluation]:
        """Judge several alike: evaluations in order, each when it and all before it are known; what raises ends it there."""
        ...


class Strategy(Protocol):
    """Decides where to search next, from history alone."""

    def choose(self, history: History) -> tuple[Candidate, ...]:
        """The candidates that the next round starts from, most promising first."""
        ...

    def finished(self, history: History) -> str | None:
        """Why the search is over, or None."""
        ...


class TestingAgent(Protocol):
    """Proposes inputs that would break a wrong kernel. Proposals are data; verdicts are code."""

    def propose(self, problem: Problem) -> tuple[Workload, ...]:
        """Further workloads, to be checked but not timed."""
        ...


class ProfilingAgent(Protocol):
    """Says what limits a kernel."""

    def diagnose(self, candidate: Candidate, evaluation: Passed) -> Diagnosis:
        """A diagnosis that cites counters."""
        ...


class PlanningAgent(Protocol):
    """Says what to try."""

    def plan(
        self, parent: Candidate, diagnosis: Diagnosis | None, history: History
    ) -> tuple[Plan, ...]:
        """Plans for `parent`, best first; empty when there is nothing left to try.

        `diagnosis` is None when the parent did not pass.
        """
        ...


class CodingAgent(Protocol):
    """Writes code."""

    def write(
        self, plan: Plan, parent: Candidate, history: History
    ) -> tuple[Candidate, ...] | Refusal:
        """Candidates that carry out `plan` on `parent`, most promising first."""
        ...

    def repair(
        self, plan: Plan, failed: Candidate, evaluation: Evaluation, history: History
    ) -> Candidate | Refusal:
        """A candidate that carries out `plan` without the fault of `failed`."""
        ...
