"""Strategies: pure functions of history, no hidden state."""

from __future__ import annotations

import math
from dataclasses import dataclass

from astra_kernels.records.candidate import Candidate
from astra_kernels.records.evaluation import Evaluation, Measured, Modelled, Passed
from astra_kernels.records.history import History, gain
from astra_kernels.records.run import Budget

_NEAR_ROOFLINE = 1.05
"""A kernel within 5 % of what memory and a launch allow is not worth more attempts."""


@dataclass(frozen=True)
class Linear:
    """Algorithm 1 of the Astra paper: one line of versions, R rounds.

    With `keep_best` a round starts from the fastest candidate so far; without, from the newest one
    even if it failed or is slower, as the paper does it.
    """

    budget: Budget
    keep_best: bool = True

    def choose(self, history: History) -> tuple[Candidate, ...]:
        """The candidate that the next round starts from."""
        baseline = _baseline(history)
        if self.keep_best:
            fastest = history.fastest()
            return (fastest.candidate if fastest else baseline,)
        return (history.attempts[-1].candidate if history.attempts else baseline,)

    def finished(self, history: History) -> str | None:
        """Why the search is over, or None."""
        spent = _spent(self.budget, history)
        if spent is None and history.plans.get(history.rounds_ended) == ():
            return "no plan left to try"
        return spent


@dataclass(frozen=True)
class Beam:
    """Starts each round from several of the fastest candidates that came about in different ways.

    A parent for which nothing more could be planned or written is left. The search ends when no parent is left,
    or near the roofline.
    """

    budget: Budget
    width: int = 2

    def choose(self, history: History) -> tuple[Candidate, ...]:
        """The candidates that the next round starts from, fastest first."""
        return self._parents(history)

    def finished(self, history: History) -> str | None:
        """Why the search is over, or None."""
        spent = _spent(self.budget, history)
        if spent is not None:
            return spent
        fastest = history.fastest()
        distance = None if fastest is None else over_roofline(fastest.evaluation)
        if distance is not None and distance < _NEAR_ROOFLINE:
            return f"within {distance - 1:.1%} of the roofline"
        if history.rounds_ended and not self._parents(history):
            return "nothing left to try"
        return None

    def _parents(self, history: History) -> tuple[Candidate, ...]:
        """The baseline counts as a parent like any other, after all that are faster."""
        barren = _barren(history)
        chosen: list[Candidate] = []
        ways: set[tuple[str | None, str]] = set()
        faster = [a for a in history.ranked() if (gain(a.evaluation) or 0.0) > 1.0]
        for attempt in faster:
            way = (attempt.candidate.parent, attempt.plan.technique)
            if way not in ways and attempt.candidate.id not in barren:
                ways.add(way)
                chosen.append(attempt.candidate)
        baseline = _baseline(history)
        if baseline.id not in barren:
            chosen.append(baseline)
        return tuple(chosen[: self.width])


def over_roofline(evaluation: Evaluation) -> float | None:
    """Time over the time that moving the necessary bytes and one launch take, geometric mean over the workloads.

    The bandwidth is the datasheet's. None where the definition does not say which bytes are necessary, or
    nothing was timed.
    """
    if not isinstance(evaluation, Passed):
        return None
    facts = evaluation.environment
    bandwidth_gb_s = float(facts.get("device_bandwidth_gb_s", 0.0))
    launch_us = float(facts.get("device_launch_floor_us", 0.0))
    logs: list[float] = []
    for workload in evaluation.workloads:
        if not isinstance(workload.timing, Measured | Modelled):
            continue
        if not workload.minimum_bytes or not bandwidth_gb_s:
            return None
        floor_us = workload.minimum_bytes / (bandwidth_gb_s * 1e3) + launch_us
        logs.append(math.log(workload.timing.candidate_us / floor_us))
    return math.exp(sum(logs) / len(logs)) if logs else None


def _spent(budget: Budget, history: History) -> str | None:
    if history.rounds_ended >= budget.rounds:
        return f"{budget.rounds} round{'s' * (budget.rounds > 1)} done"
    if budget.candidates is not None and len(history.attempts) >= budget.candidates:
        return f"budget of {budget.candidates} candidates used"
    if budget.seconds is not None and history.elapsed_s >= budget.seconds:
        return budget.out_of_time
    return None


def _barren(history: History) -> set[str]:
    """Parents from which a whole round brought no candidate: every plan was refused, or there was none."""
    fruitful = {(a.round, a.plan.parent) for a in history.attempts}
    asked = {(n, p.parent) for n, plans in history.plans.items() for p in plans}
    ended = range(1, history.rounds_ended + 1)
    return {
        parent
        for number in ended
        for parent in history.parents.get(number, ())
        if (number, parent) not in fruitful and _exhausted(history, number, parent, asked)
    }


def _exhausted(history: History, number: int, parent: str, asked: set[tuple[int, str]]) -> bool:
    """Whether a parent had its turn in a round: no plan at all, or each of its plans was refused for a reason."""
    if (number, parent) not in asked:
        return True
    refused = {r.plan.id for r in history.refusals if r.round == number and not r.unanswered}
    own = [p for p in history.plans[number] if p.parent == parent]
    return all(p.id in refused for p in own)


def _baseline(history: History) -> Candidate:
    if history.baseline is None:
        raise ValueError("the baseline is judged before the first round")
    return history.baseline
