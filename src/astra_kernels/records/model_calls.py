"""Calls of language models: what was asked, what was set aside for it, what came back and what it cost.

A call is two events: `model_asked`, on disk before anything is sent, and `model_answered` or `model_failed`. A call
whose second event is missing was lost in flight, and is charged what was set aside.
"""

from __future__ import annotations

import hashlib
from collections import defaultdict, deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

from pydantic import Field

from astra_kernels.records.base import Record

Role = Literal["testing", "profiling", "planning", "coding"]
Failure = Literal[
    "rate_limited", "server_error", "timed_out", "connection", "rejected", "unusable", "interrupted"
]
"""`rejected`: the provider refuses the request (key, name of the model, size); asking again does not help.
`unusable`: an answer without any text."""


class Message(Record):
    """One turn of a conversation."""

    author: Literal["system", "user", "assistant"]
    text: str


class Charge(Record):
    """What a call costs, or may cost at most."""

    tokens: int = Field(0, ge=0)
    """Input and output together."""
    usd: float | None = Field(0.0, ge=0)
    """None: the price of the model is not known."""


class Usage(Record):
    """Tokens of one answered call."""

    input_tokens: int = Field(ge=0)
    output_tokens: int = Field(ge=0)
    estimated: bool = False
    """The model reported none; they are counted from the text."""


class Asked(Record):
    """A request, and what was set aside for it."""

    call: int = Field(ge=1)
    """Counts from 1 over the whole run."""
    round: int = Field(ge=0)
    """0 before the first round."""
    role: Role
    model: str
    """As the user named it."""
    attempt: int = Field(1, ge=1)
    """Counts how often this request has been sent, within one session."""
    messages: tuple[Message, ...]
    max_output_tokens: int = Field(ge=1)
    reserved: Charge

    @property
    def key(self) -> str:
        """What makes two requests the same."""
        return request_key(self.role, self.messages)


class Answered(Record):
    """The answer to a call."""

    call: int = Field(ge=1)
    text: str
    usage: Usage
    charged: Charge
    finish: str = ""
    """Why the model stopped, in the provider's word; `length` is a truncated answer."""
    seconds: float = Field(0.0, ge=0)


class Failed(Record):
    """A call that gave no answer."""

    call: int = Field(ge=1)
    kind: Failure
    detail: str
    charged: Charge
    told: str = ""
    """What the agent was told, when that was the end of it: the run goes on without an answer. Empty where the request
    was sent again, or the session ended with it."""
    seconds: float = Field(0.0, ge=0)


def request_key(role: Role, messages: Sequence[Message]) -> str:
    """Hex digest of a role and what it is asked, with field boundaries."""
    digest = hashlib.sha256()
    for part in (role, *(part for m in messages for part in (m.author, m.text))):
        data = part.encode()
        digest.update(len(data).to_bytes(8, "big") + data)
    return digest.hexdigest()


@dataclass
class Ledger:
    """All calls of a run, folded."""

    asked: dict[int, Asked] = field(default_factory=dict)
    answered: dict[int, Answered] = field(default_factory=dict)
    failed: dict[int, Failed] = field(default_factory=dict)

    def take(self, entry: Asked | Answered | Failed) -> None:
        """Take in one more event."""
        match entry:
            case Asked():
                self.asked[entry.call] = entry
            case Answered():
                self.answered[entry.call] = entry
            case Failed():
                self.failed[entry.call] = entry

    def ends(self, round_number: int | None = None) -> dict[str, deque[Answered | Failed]]:
        """How each request ended for the agent that made it, by its key, oldest first; of one round, or of all.

        Tries that were followed by another one do not count, nor those that ended a session.
        """
        found: defaultdict[str, deque[Answered | Failed]] = defaultdict(deque)
        for call, asked in sorted(self.asked.items()):
            if round_number not in (None, asked.round):
                continue
            failure = self.failed.get(call)
            end = self.answered.get(call) or (failure if failure and failure.told else None)
            if end is not None:
                found[asked.key].append(end)
        return dict(found)

    @property
    def requests(self) -> int:
        """Requests that were sent, answered or not."""
        return len(self.asked)

    def charge_of(self, call: int) -> Charge:
        """What a call was charged; what was set aside for it while it is in flight or when it was lost."""
        ended = self.answered.get(call) or self.failed.get(call)
        return self.asked[call].reserved if ended is None else ended.charged

    @property
    def tokens(self) -> int:
        """Tokens charged, or set aside for calls in flight."""
        return sum(self.charge_of(call).tokens for call in self.asked)

    @property
    def usd(self) -> float:
        """US dollars charged or set aside, over the calls whose price is known."""
        return sum(self.charge_of(call).usd or 0.0 for call in self.asked)

    @property
    def unpriced(self) -> int:
        """Calls whose price is not known."""
        return sum(self.charge_of(call).usd is None for call in self.asked)
