"""Writes a run's events: stamps them, makes them durable, and keeps the history equal to the fold of the log."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, TypeVar

from astra_kernels.records.history import History
from astra_kernels.records.run import Event, EventBase

_AnyEvent = TypeVar("_AnyEvent", bound=EventBase)


@dataclass
class Journal:
    """The one way to add to a run. Safe to call from several threads."""

    history: History
    write: Callable[[Event], None]
    """Appends an event to the log; it is durable when this returns."""
    _started: float = field(default_factory=time.monotonic)
    _before_s: float = 0.0
    _lock: threading.RLock = field(default_factory=threading.RLock)

    def __post_init__(self) -> None:
        self._before_s = self.history.elapsed_s

    @property
    def elapsed_s(self) -> float:
        """Seconds of work on the run, over all its sessions."""
        return self._before_s + time.monotonic() - self._started

    def log(self, kind: type[_AnyEvent], /, **fields: Any) -> None:
        """Append one event.

        Raises:
            MachineFault: it could not be made durable; then it did not happen.
        """
        with self._lock:
            now = datetime.now(UTC).isoformat(timespec="milliseconds")
            event: Any = kind(at=now, elapsed_s=self.elapsed_s, **fields)
            self.write(event)
            self.history.append(event)

    def exclusively(self) -> threading.RLock:
        """A lock under which nobody else appends, to decide on the history and write the decision."""
        return self._lock
