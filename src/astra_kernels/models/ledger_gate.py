"""Sets aside what a request may cost at most, before it is sent; refuses it where that does not fit the budget."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

from astra_kernels.errors import BudgetSpent
from astra_kernels.records.journal import Journal
from astra_kernels.records.model_calls import Answered, Asked, Charge, Failed, Ledger
from astra_kernels.records.run import Budget, ModelAnswered, ModelAsked, ModelFailed


@dataclass
class LedgerGate:
    """Every event of a model call goes through here. Safe to call from several threads."""

    journal: Journal
    budget: Budget
    _spare: dict[str, deque[Answered | Failed]] = field(default_factory=dict)
    _in_flight: set[int] = field(default_factory=set)
    """Calls of this session that have not ended."""

    def __post_init__(self) -> None:
        """Take up what became of the requests of the round that an earlier session did not finish."""
        ledger = self.journal.history.ledger
        self._spare = ledger.ends(self.round)
        self._spare_round = self.round

    @property
    def round(self) -> int:
        """The round that the run is in."""
        return self.journal.history.round

    def recall(self, key: str) -> Answered | Failed | None:
        """How a request ended that was made in an earlier session and not yet in this one, oldest first.

        None when there was none. What was given up then is given up again: a round goes on as it began.
        """
        with self.journal.exclusively():
            ends = self._spare.get(key)
            if not ends or self.round != self._spare_round:
                return None
            return ends.popleft()

    def was_answered(self, model: str) -> bool:
        """Whether a model of this name has answered anything in this run."""
        ledger = self.journal.history.ledger
        return any(ledger.asked[call].model == model for call in ledger.answered)

    def ask(self, request: Asked) -> Asked | None:
        """Write a request down, with the next number of a call and the current round.

        None where it does not fit beside what is set aside for requests in flight: these may cost less. Then it is not
        written; ask again when one of them has ended.

        Raises:
            BudgetSpent: it could go over a limit, whatever becomes of requests in flight; then it is not written.
        """
        with self.journal.exclusively():
            ledger = self.journal.history.ledger
            over = self._over(ledger, request.reserved)
            if over:
                aside = [ledger.charge_of(call) for call in self._in_flight]
                if not aside or self._over(ledger, request.reserved, aside):
                    raise BudgetSpent(over)
                return None
            call = max(ledger.asked, default=0) + 1
            asked = request.model_copy(update={"call": call, "round": self.round})
            self.journal.log(ModelAsked, **dict(asked))
            self._in_flight.add(call)
            return asked

    def answered(self, answer: Answered) -> None:
        """Write an answer down."""
        self.journal.log(ModelAnswered, **dict(answer))
        self._in_flight.discard(answer.call)

    def failed(self, failure: Failed) -> None:
        """Write down that there is no answer."""
        self.journal.log(ModelFailed, **dict(failure))
        self._in_flight.discard(failure.call)

    def lost(self, asked: Asked) -> None:
        """A request was called off: what was set aside for it stays charged."""
        self._in_flight.discard(asked.call)

    @property
    def seconds_left(self) -> float | None:
        """Of the run's budget, at least 0; None where time is no limit."""
        if self.budget.seconds is None:
            return None
        return max(0.0, self.budget.seconds - self.journal.elapsed_s)

    def _over(self, ledger: Ledger, wanted: Charge, aside: Sequence[Charge] = ()) -> str:
        """Which limit the request could go over if what is set `aside` came back; empty when none."""
        budget = self.budget
        if self.seconds_left == 0.0:
            return budget.out_of_time
        if budget.requests is not None and ledger.requests + 1 > budget.requests:
            return f"requests: all {budget.requests} of the budget were sent"
        tokens = ledger.tokens - sum(c.tokens for c in aside)
        if budget.tokens is not None and tokens + wanted.tokens > budget.tokens:
            return (
                f"tokens: {tokens:,} of {budget.tokens:,} are spent or set aside, "
                f"and the next request could take {wanted.tokens:,}"
            )
        usd, price = ledger.usd - sum(c.usd or 0.0 for c in aside), wanted.usd or 0.0
        if budget.usd is not None and usd + price > budget.usd:
            return (
                f"usd: {usd:.4f} of {budget.usd:.4f} are spent or set aside, "
                f"and the next request could take {price:.4f}"
            )
        return ""
