"""Sets aside what a request may cost at most, before it is sent; refuses it where that does not fit the budget."""

from __future__ import annotations

from collections import defaultdict, deque
from dataclasses import dataclass, field
from typing import Literal

from astra_kernels.errors import BudgetSpent
from astra_kernels.records.journal import Journal
from astra_kernels.records.model_calls import Answered, Asked, Charge, Failed, Ledger
from astra_kernels.records.run import Budget, ModelAnswered, ModelAsked, ModelFailed

Limit = Literal["requests", "tokens", "usd"]


@dataclass
class LedgerGate:
    """Every event of a model call goes through here. Safe to call from several threads."""

    journal: Journal
    budget: Budget
    _spare: dict[str, deque[Answered]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Take up the answers of the round that an earlier session did not finish."""
        spare: defaultdict[str, deque[Answered]] = defaultdict(deque)
        ledger = self.journal.history.ledger
        for call, asked in sorted(ledger.asked.items()):
            if call in ledger.answered and asked.round == self.round:
                spare[asked.key].append(ledger.answered[call])
        self._spare = dict(spare)
        self._spare_round = self.round

    @property
    def round(self) -> int:
        """The round that the run is in; 0 while the workloads are not settled."""
        history = self.journal.history
        return history.rounds_ended + 1 if history.workloads_proposed else 0

    def recall(self, key: str) -> Answered | None:
        """An answer that is paid for and was not used in this session, oldest first; None when there is none."""
        with self.journal.exclusively():
            answers = self._spare.get(key)
            if not answers or self.round != self._spare_round:
                return None
            return answers.popleft()

    def ask(self, request: Asked) -> Asked:
        """Write a request down, with the next number of a call and the current round.

        Raises:
            BudgetSpent: it could go over a limit; then it is not written.
        """
        with self.journal.exclusively():
            ledger = self.journal.history.ledger
            self._require_room(ledger, request.reserved)
            call = max(ledger.asked, default=0) + 1
            asked = request.model_copy(update={"call": call, "round": self.round})
            self.journal.log(ModelAsked, **dict(asked))
            return asked

    def answered(self, answer: Answered) -> None:
        """Write an answer down."""
        self.journal.log(ModelAnswered, **dict(answer))

    def failed(self, failure: Failed) -> None:
        """Write down that there is no answer."""
        self.journal.log(ModelFailed, **dict(failure))

    def _require_room(self, ledger: Ledger, wanted: Charge) -> None:
        if self.budget.requests is not None and ledger.requests + 1 > self.budget.requests:
            raise BudgetSpent(f"requests: all {self.budget.requests} of the budget were sent")
        if self.budget.tokens is not None and ledger.tokens + wanted.tokens > self.budget.tokens:
            raise BudgetSpent(
                f"tokens: {ledger.tokens:,} of {self.budget.tokens:,} are spent or set aside, "
                f"and the next request could take {wanted.tokens:,}"
            )
        if self.budget.usd is not None and ledger.usd + (wanted.usd or 0.0) > self.budget.usd:
            raise BudgetSpent(
                f"usd: {ledger.usd:.4f} of {self.budget.usd:.4f} are spent or set aside, "
                f"and the next request could take {wanted.usd or 0.0:.4f}"
            )
