"""A call of a tool whose work is done in a thread: what it tells meanwhile, and how it is called off."""

from __future__ import annotations

import threading
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import TypeVar

import anyio
from anyio import to_thread

from astra_kernels.errors import AstraError

Tell = Callable[[float, str], Awaitable[None]]
"""Told of progress: seconds since the call began, and what it is at."""
_Result = TypeVar("_Result")
_LOOK_S = 0.25
_TELL_S = 2.0
"""A call without news tells that it is alive this often."""


class CalledOff(AstraError):
    """Whoever asked does not want the answer any more."""


@dataclass
class Call:
    """One call, seen from the thread that does its work."""

    step: str = "waiting for the device"
    stages: tuple[str, ...] = ()
    _called_off: threading.Event = field(default_factory=threading.Event)

    def begin(self, step: str) -> None:
        """Say what comes next.

        Raises:
            CalledOff: nobody waits for it.
        """
        self.step = step
        self.pulse(())

    def pulse(self, stages: tuple[str, ...]) -> None:
        """Called while a job runs.

        Raises:
            CalledOff: nobody waits for the job; it is stopped.
        """
        self.stages = stages
        if self._called_off.is_set():
            raise CalledOff("called off")

    def call_off(self) -> None:
        """Have the work stop at its next pulse."""
        self._called_off.set()

    @property
    def words(self) -> str:
        """What it is at: the step, and the stages that its job has been through."""
        return f"{self.step}: through {', '.join(self.stages)}" if self.stages else self.step


async def carried_out(
    lock: anyio.Lock, call: Call, work: Callable[[], _Result], tell: Tell
) -> _Result:
    """What `work` returns, done in a thread, one after the other for all that share `lock`.

    When the caller is cancelled the work is called off, and this waits until it has stopped.

    Raises:
        AstraError: whatever `work` raises.
    """
    outcome: list[_Result | AstraError] = []
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(_accompany, call, tell)
        try:
            async with lock:
                outcome.append(await to_thread.run_sync(work))
        except AstraError as error:  # by itself, not as a group of one
            outcome.append(error)
        tasks.cancel_scope.cancel()
    (found,) = outcome
    if isinstance(found, AstraError):
        raise found
    return found


async def _accompany(call: Call, tell: Tell) -> None:
    """Tell of progress until cancelled, by the end of the work or by the client."""
    began, told, words = time.monotonic(), -_TELL_S, ""
    try:
        while True:
            now = time.monotonic() - began
            if call.words != words or now - told >= _TELL_S:
                told, words = now, call.words
                await tell(now, f"{words} ({now:.0f} s)")
            await anyio.sleep(_LOOK_S)
    finally:
        call.call_off()
