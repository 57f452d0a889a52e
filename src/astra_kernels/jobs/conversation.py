"""What a child may say and when: every line is authenticated, and has its place in the order of a task.

A candidate shares its process with the code that reports on it. So a line counts only with a code made from
a key that the child got with its request, and the number of the line; the key is wiped, and the request
closed, before the candidate's library is loaded. That stops writes to descriptors found by trying. It does
not stop native code that searches the process's memory for the state of the authenticator and forges lines
with it: which calls were made, and their counters, remain claims of that process. What the outputs are worth
is judged outside of it, from bytes in shared memory.
"""

from __future__ import annotations

import hmac
import math
from collections.abc import Mapping
from typing import Any

from astra_kernels.jobs.wire import Event, Request, Tampered, decode_event

KEY_BYTES = 32
_CODE = 32
"""Characters of a line's code: the first half of an HMAC-SHA256, in hexadecimal."""


class Seal:
    """Makes the codes of the lines of one child, in order."""

    def __init__(self, key: bytes | bytearray) -> None:
        self._state = hmac.new(key, digestmod="sha256")
        self._count = 0

    def code(self, line: bytes) -> bytes:
        """The code of the next line."""
        state = self._state.copy()
        state.update(self._count.to_bytes(8, "little"))
        state.update(line)
        self._count += 1
        return state.hexdigest()[:_CODE].encode()

    def sealed(self, line: bytes) -> bytes:
        """The next line, with its code and an end."""
        return self.code(line) + line + b"\n"


class Conversation:
    """One child's lines, accepted or refused as they come.

    Attributes:
        loaded: whether the child said that it loads programs: from then on foreign code may have run.
        done: calls that were finished, in order.
        ended: whether the child said its last word.
    """

    def __init__(self, request: Request, key: bytes) -> None:
        self._seal = Seal(key)
        self._timing = request.task == "time"
        self._calls = len(request.calls)
        self._ready = False
        self._in_call = False
        self._over = False
        self.loaded = False
        self.done = 0
        self.ended = False

    @property
    def complete(self) -> bool:
        """Whether every call was made and the child said its last word."""
        return self.ended and self.done == self._calls

    @property
    def current(self) -> int:
        """The call in progress, or the last one; -1 before the first."""
        return self.done if self._in_call else self.done - 1

    def accept(self, line: bytes) -> Event:
        """The event of a line.

        Raises:
            Tampered: the child cannot have written this line here.
        """
        code, text = line[:_CODE], line[_CODE:]
        if not hmac.compare_digest(code, self._seal.code(text)):
            raise Tampered("something else than the child wrote to its pipe")
        try:
            event = decode_event(text)
        except ValueError as error:
            raise Tampered(f"the child wrote what is no event: {error}") from error
        if self.ended or not getattr(self, f"_on_{event.kind}")(event):
            raise Tampered(f"the child wrote {event.kind!r} where it cannot")
        return event

    def _on_ready(self, event: Event) -> bool:
        fits = not self._ready and numbers(event.data, except_for=("name", "driver"))
        self._ready = True
        return fits

    def _on_mark(self, event: Event) -> bool:
        ceilings = event.detail == "ceilings" and not self.loaded
        replay = self._in_call and event.index == self.done
        return self._timing and self._ready and (ceilings or replay) and numbers(event.data)

    def _on_loading(self, event: Event) -> bool:
        del event
        fits = self._ready and not self.loaded
        self.loaded = True
        return fits

    def _on_failed(self, event: Event) -> bool:
        """Programs that cannot be loaded, or a timed call that fails."""
        timed = self._timing and event.index == self.done
        fits = self.loaded and not self._over and (timed if self._in_call else self.done == 0)
        self._over = True
        return fits

    def _on_begin(self, event: Event) -> bool:
        fits = self.loaded and not self._over and not self._in_call and event.index == self.done
        self._in_call = True
        return fits and event.index < self._calls

    def _on_done(self, event: Event) -> bool:
        fits = self._in_call and event.index == self.done
        self._in_call = False
        self.done += 1
        return fits

    def _on_machine(self, event: Event) -> bool:
        del event
        fits, self._over = not self._over, True
        return fits

    def _on_end(self, event: Event) -> bool:
        del event
        self.ended = True
        return self._over or not self._in_call


def numbers(data: Mapping[str, Any], except_for: tuple[str, ...] = ()) -> bool:
    """Whether the values are finite numbers, or text where that is expected."""
    return all(
        isinstance(value, str) if name in except_for else is_number(value)
        for name, value in data.items()
    )


def is_number(value: object) -> bool:
    """Whether it is a finite number that is not negative."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return False
    return math.isfinite(value) and value >= 0
