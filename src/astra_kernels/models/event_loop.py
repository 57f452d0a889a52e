"""One event loop for all requests: a provider's connections belong to the loop that opened them."""

from __future__ import annotations

import asyncio
import atexit
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from contextlib import suppress
from typing import Any, TypeVar

import anyio

_Result = TypeVar("_Result")
_CLOSING_S = 10.0
"""How long requests that are called off may take to stop what they started."""


class RequestLoop:
    """An event loop in a thread of its own, started by the first request.

    Agents ask from several threads, each with a loop that ends with its question.
    """

    def __init__(self) -> None:
        self.last: list[Callable[[], Coroutine[Any, Any, None]]] = []
        """Done on the loop before it ends; what they raise is dropped."""
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._lock = threading.Lock()
        self._outstanding: set[Future[Any]] = set()
        """What callers wait for. None of them is left waiting for a loop that has ended."""

    async def run(self, work: Coroutine[Any, Any, _Result]) -> _Result:
        """Do `work` on the loop; a caller that is cancelled waits until the work has stopped."""
        loop = self._started()
        outcome: Future[_Result] = Future()
        self._outstanding.add(outcome)
        outcome.add_done_callback(self._outstanding.discard)
        tasks: list[asyncio.Task[_Result]] = []

        def begin() -> None:
            tasks.append(loop.create_task(work))
            tasks[0].add_done_callback(lambda task: _hand_over(task, outcome))

        loop.call_soon_threadsafe(begin)
        waiting = asyncio.wrap_future(outcome)
        try:
            return await asyncio.shield(waiting)
        except asyncio.CancelledError:
            with suppress(RuntimeError):  # the loop was closed, and its work called off with it
                loop.call_soon_threadsafe(lambda: [task.cancel() for task in tasks])
            with anyio.CancelScope(shield=True):  # a scope cancels again at every step of its tasks
                await asyncio.wait([waiting], timeout=_CLOSING_S)
            if waiting.done() and not waiting.cancelled():
                waiting.exception()  # marks it as seen: nobody is left to be told
            raise

    def close(self) -> None:
        """Call off what is in flight and end the thread. Does nothing when there is none."""
        with self._lock:
            loop, thread = self._loop, self._thread
            self._loop = self._thread = None
        if loop is None or thread is None:
            return
        atexit.unregister(self.close)
        last = [work() for work in self.last]
        loop.call_soon_threadsafe(lambda: asyncio.ensure_future(_stop(loop, last), loop=loop))
        thread.join(_CLOSING_S)
        for outcome in tuple(self._outstanding):  # work that did not stop in time
            outcome.cancel()

    def _started(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                self._thread = threading.Thread(
                    target=_serve, args=(self._loop,), name="model-requests", daemon=True
                )
                self._thread.start()
                atexit.register(self.close)
            return self._loop


def _hand_over(task: asyncio.Task[_Result], outcome: Future[_Result]) -> None:
    if outcome.cancelled():
        return
    if task.cancelled():
        outcome.cancel()
    elif (error := task.exception()) is not None:
        outcome.set_exception(error)
    else:
        outcome.set_result(task.result())


def _serve(loop: asyncio.AbstractEventLoop) -> None:
    asyncio.set_event_loop(loop)
    try:
        loop.run_forever()
    finally:
        loop.run_until_complete(loop.shutdown_asyncgens())
        loop.close()


async def _stop(loop: asyncio.AbstractEventLoop, last: list[Coroutine[Any, Any, None]]) -> None:
    """Cancel every request, let each clean up, do what is left to do, and stop the loop."""
    others = [t for t in asyncio.all_tasks(loop) if t is not asyncio.current_task(loop)]
    for task in others:
        task.cancel()
    if others:
        await asyncio.wait(others, timeout=_CLOSING_S / 2)
    with suppress(TimeoutError):
        async with asyncio.timeout(_CLOSING_S / 4):
            await asyncio.gather(*last, return_exceptions=True)
    await asyncio.sleep(0)  # lets transports that were closed say so
    loop.stop()
