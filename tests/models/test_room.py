"""Room in a budget: requests wait for others that may cost less, and for nothing when that cannot help; time is a limit."""

import asyncio
import threading

import pytest
from pydantic_ai.exceptions import ModelHTTPError
from pydantic_ai.models.function import FunctionModel

from astra_kernels.errors import BudgetSpent, ModelFault
from astra_kernels.models.backend import Backend
from tests.models.conftest import answering, ask, response


def test_requests_side_by_side_wait_for_room_that_is_only_set_aside(recorder, meter_of):
    """Each may take about 2,100 tokens and takes 15: four fit into 3,000, one after the other."""
    model = meter_of(recorder, tokens=3_000).wrap(answering(*"abcd"), "coding")
    answers = []
    threads = [threading.Thread(target=lambda: answers.append(ask(model))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(answers) == list("abcd")
    kinds = recorder.kinds()
    assert kinds == ["model_asked", "model_answered"] * 4


def test_what_was_lost_in_an_earlier_session_is_not_waited_for(recorder, meter_of):
    ask(meter_of(recorder).wrap(answering("x"), "coding"))
    lost = recorder.killed()
    lost.events.pop()
    again = lost.killed()
    with pytest.raises(BudgetSpent, match="tokens: 2,"):
        ask(meter_of(again, tokens=3_000).wrap(answering("y"), "coding"))


def test_no_request_is_sent_when_the_time_is_up(recorder, meter_of):
    model = meter_of(recorder, seconds=1e-6).wrap(answering("x"), "coding")
    with pytest.raises(BudgetSpent, match="budget of 1e-06 s used"):
        ask(model)
    assert recorder.events == []


def test_a_try_does_not_outlast_the_time_of_the_run(recorder, meter_of):
    async def never(messages, info):
        await asyncio.sleep(3600)

    model = meter_of(recorder, seconds=0.3).wrap(Backend("fake:slow", FunctionModel(never)), "coding")  # fmt: skip
    with pytest.raises(BudgetSpent, match=r"budget of 0\.3 s used"):
        ask(model)
    assert recorder.kinds() == ["model_asked", "model_failed"]
    assert recorder.events[-1].charged == recorder.events[0].reserved


def test_a_wait_does_not_outlast_the_time_of_the_run(recorder, meter_of, waits):
    later = ModelHTTPError(429, "m", retry_after=200.0)
    ask(meter_of(recorder, seconds=60.0).wrap(answering(later, "x"), "coding"))
    (waited,) = waits.seconds
    assert 0 < waited <= 60.0


def test_what_was_given_up_is_given_up_again_in_the_same_words(recorder, meter_of):
    model = meter_of(recorder).wrap(answering(ModelHTTPError(413, "m")), "coding")
    with pytest.raises(ModelFault) as first:
        ask(model)
    again = recorder.killed()
    with pytest.raises(ModelFault) as second:
        ask(meter_of(again).wrap(answering("an answer"), "coding"))
    assert str(second.value) == str(first.value) == again.events[-1].told
    assert again.ledger.requests == 1


def test_a_refused_account_is_asked_again(recorder, meter_of):
    with pytest.raises(Exception, match=r"docs/models\.md"):
        ask(meter_of(recorder).wrap(answering(ModelHTTPError(401, "m")), "coding"))
    assert recorder.events[-1].told == ""
    again = recorder.killed()
    assert ask(meter_of(again).wrap(answering(response("mended")), "coding")) == "mended"
