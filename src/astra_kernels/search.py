"""Strategies: pure functions of history, no hidden state."""

from __future__ import annotations

from dataclasses import dataclass

from astra_kernels.records.candidate import Candidate
from astra_kernels.records.history import History
from astra_kernels.records.run import Budget


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
        if history.baseline is None:
            raise ValueError("the baseline is judged before the first round")
        if self.keep_best:
            fastest = history.fastest()
            return (fastest.candidate if fastest else history.baseline,)
        return (history.attempts[-1].candidate if history.attempts else history.baseline,)

    def finished(self, history: History) -> str | None:
        """Why the search is over, or None."""
        budget = self.budget
        if history.rounds_ended >= budget.rounds:
            return f"{budget.rounds} rounds done"
        if budget.candidates is not None and len(history.attempts) >= budget.candidates:
            return f"budget of {budget.candidates} candidates used"
        if budget.seconds is not None and history.elapsed_s >= budget.seconds:
            return f"budget of {budget.seconds:g} s used"
        last = history.plans.get(history.rounds_ended)
        if last == ():
            return "no plan left to try"
        return None
