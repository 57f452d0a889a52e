"""`replay:RUN`: the answers of a recorded run, by request. A request that was not recorded is a divergence, never a guess."""

from __future__ import annotations

import difflib
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass, field

from pydantic_ai.messages import FinishReason

from astra_kernels.errors import BudgetSpent, ModelFault, ModelRejected
from astra_kernels.models.text_model import Reply, TextModel
from astra_kernels.models.transcript import as_prompt
from astra_kernels.records.history import History
from astra_kernels.records.model_calls import (
    Answered,
    Asked,
    Failed,
    Ledger,
    Message,
    Role,
    request_key,
)
from astra_kernels.records.run import RunFinished

_DIFF_LINES = 24
_LINE_CHARACTERS = 160


@dataclass
class Recording:
    """What a recorded run asked, and how each request ended; shared by all roles of a session."""

    name: str
    asked: tuple[Asked, ...]
    ends: dict[str, deque[Answered | Failed]] = field(default_factory=dict)
    finished: RunFinished | None = None
    """How the recorded run ended."""

    @staticmethod
    def of(name: str, recorded: History, already: Ledger) -> Recording:
        """The recording without what a run that goes on has used up before."""
        ledger, finished = recorded.ledger, recorded.finished
        ends = ledger.ends()
        for key, used in already.ends().items():
            for _ in used:
                if ends.get(key):
                    ends[key].popleft()
        return Recording(name, tuple(ledger.asked.values()), ends, finished)

    def next(
        self, role: Role, round_number: int, messages: tuple[Message, ...]
    ) -> Answered | Failed:
        """How the request ended the next time it was made, in the order of the recording.

        Raises:
            BudgetSpent: it was not made, in the round in which the recorded run could not ask any more.
            ModelRejected: it was not made, or not as often; the message shows the closest request.
        """
        ends = self.ends.get(request_key(role, messages))
        if ends:
            return ends.popleft()
        if self.finished is not None and self.finished.spent_in == round_number:
            raise BudgetSpent(self.finished.reason)
        where = f"{self.name}: the {role} agent asks in round {round_number} what the recording does not hold"
        if ends is not None:
            raise ModelRejected(
                f"{where} any more: it asks the same more often than the recorded run"
            )
        raise ModelRejected(f"{where}\n{self._difference(role, messages)}")

    def _difference(self, role: Role, messages: tuple[Message, ...]) -> str:
        lines = as_prompt(messages).splitlines()
        recorded = [as_prompt(a.messages).splitlines() for a in self.asked if a.role == role]
        if not recorded:
            return f"(the recording has no request of the {role} agent)"
        closest = max(
            recorded, key=lambda other: (Counter[str](other) & Counter[str](lines)).total()
        )
        diff = difflib.unified_diff(closest, lines, "recorded", "asked", lineterm="", n=1)
        shown = [line[:_LINE_CHARACTERS] for line in diff]
        more = (
            [f"... and {len(shown) - _DIFF_LINES} lines more"] if len(shown) > _DIFF_LINES else []
        )
        return "\n".join(shown[:_DIFF_LINES] + more)


class ReplayModel(TextModel):
    """Answers as a recorded run was answered."""

    def __init__(
        self, name: str, recording: Recording, role: Role, round_number: Callable[[], int]
    ) -> None:
        super().__init__(name, "replay")
        self._recording = recording
        self._role = role
        self._round = round_number

    async def reply(self, messages: tuple[Message, ...], most_bytes: int) -> Reply:
        """The recorded answer.

        Raises:
            BudgetSpent: the recorded run could not ask any more.
            ModelRejected: the request was not recorded.
            ModelFault: the recorded run had no usable answer either.
        """
        end = self._recording.next(self._role, self._round(), messages)
        if isinstance(end, Failed):
            raise ModelFault(end.told)
        finish: FinishReason = "stop"
        for known in ("length", "content_filter", "error"):
            if end.finish == known:
                finish = known
        return Reply(end.text, end.usage.input_tokens, end.usage.output_tokens, finish)
