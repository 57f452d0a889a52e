"""The loop of all requests: whoever waits for one hears of its end, also when the work does not stop."""

import asyncio
import threading

import pytest

from astra_kernels.models import event_loop
from astra_kernels.models.event_loop import RequestLoop


async def stubborn(begun):
    """Work that takes no cancellation for an answer."""
    begun.set()
    while True:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            continue


def test_a_caller_is_not_left_waiting_for_work_that_does_not_stop(monkeypatch):
    monkeypatch.setattr(event_loop, "_CLOSING_S", 0.4)
    loop, begun, ended = RequestLoop(), threading.Event(), []

    def asks():
        try:
            asyncio.run(loop.run(stubborn(begun)))
        except BaseException as error:
            ended.append(type(error))

    caller = threading.Thread(target=asks, daemon=True)
    caller.start()
    assert begun.wait(20)
    loop.close()
    caller.join(20)
    assert ended == [asyncio.CancelledError]


def test_results_and_errors_reach_their_callers():
    loop = RequestLoop()

    async def halves(number):
        await asyncio.sleep(0)
        if number % 2:
            raise ValueError(number)
        return number // 2

    assert asyncio.run(loop.run(halves(8))) == 4
    with pytest.raises(ValueError, match="7"):
        asyncio.run(loop.run(halves(7)))
    loop.close()
    loop.close()
