"""What is written down, charged, asked again and refused."""

import asyncio
import threading

import pytest
from pydantic_ai import Agent, ModelRetry
from pydantic_ai.exceptions import (
    ModelAPIError,
    ModelConnectionError,
    ModelHTTPError,
    ModelTimeoutError,
    UnexpectedModelBehavior,
)
from pydantic_ai.models.function import FunctionModel

from astra_kernels.errors import BudgetSpent, ModelFault, ModelRejected, UserError
from astra_kernels.models.backend import Backend
from astra_kernels.models.prices import Price
from astra_kernels.records.history import History
from astra_kernels.records.run import RoundEnded, WorkloadsProposed
from tests.models.conftest import Recorder, answering, ask, response, run


def status(code, body=None, **more):
    return ModelHTTPError(code, "m", body, **more)


def test_an_answer_is_recorded_with_its_request_and_its_usage(recorder, meter_of):
    model = meter_of(recorder).wrap(answering("Use float4."), "coding")
    assert ask(model) == "Use float4."
    asked, answered = recorder.events
    assert [(m.author, m.text) for m in asked.messages] == [
        ("system", "You write CUDA."),
        ("user", "How fast?"),
    ]
    assert (asked.call, asked.round, asked.role, asked.model, asked.attempt) == (
        1,
        0,
        "coding",
        "fake:model",
        1,
    )
    assert asked.max_output_tokens == 1000
    assert asked.reserved.tokens > 1000 + len("You write CUDA.How fast?")
    assert (answered.text, answered.charged.tokens, answered.usage.estimated) == (
        "Use float4.",
        15,
        False,
    )
    assert answered.finish == "stop"


def test_the_request_is_on_disk_before_it_is_sent(recorder, meter_of):
    seen = []
    backend = answering("yes")
    function = backend.model.function
    backend.model.function = lambda *a: seen.extend(recorder.kinds()) or function(*a)
    ask(meter_of(recorder).wrap(backend, "planning"))
    assert seen == ["model_asked"]


def test_a_conversation_holds_what_was_answered_and_what_was_wrong_with_it(recorder, meter_of):
    model = meter_of(recorder).wrap(answering("bad", "good"), "coding")
    agent = Agent(model, instructions="I", output_type=str, retries=2)

    @agent.output_validator
    def check(text: str) -> str:
        if text == "bad":
            raise ModelRetry("not a kernel")
        return text

    assert run(agent, "Write.").output == "good"
    last = recorder.events[2].messages
    assert [m.author for m in last] == ["system", "user", "assistant", "user"]
    assert last[2].text == "bad"
    assert "not a kernel" in last[3].text


@pytest.mark.parametrize(
    ("error", "kind", "billed"),
    [
        (status(429), "rate_limited", False),
        (status(500), "server_error", False),
        (status(503), "server_error", False),
        (status(529), "server_error", False),
        (status(408), "server_error", False),
        (ModelConnectionError("m", "refused", phase="connect"), "connection", False),
        (ModelConnectionError("m", "cut", phase="read"), "connection", True),
        (ModelConnectionError("m", "cut"), "connection", True),
        (ModelTimeoutError("m", "slow", phase="read"), "timed_out", True),
        (ModelTimeoutError("m", "no way there", phase="connect"), "timed_out", False),
        (ModelAPIError("m", "no JSON"), "server_error", True),
        (TimeoutError(), "timed_out", True),
        (UnexpectedModelBehavior("no choices"), "unusable", True),
        (KeyError("usage"), "server_error", True),
    ],
)
def test_a_fault_that_may_pass_is_charged_and_asked_again(error, kind, billed, recorder, meter_of):
    model = meter_of(recorder).wrap(answering(error, "fine"), "coding")
    assert ask(model) == "fine"
    assert recorder.kinds() == ["model_asked", "model_failed", "model_asked", "model_answered"]
    asked, failed, again, _ = recorder.events
    assert failed.kind == kind
    assert failed.charged.tokens == (asked.reserved.tokens if billed else 0)
    assert (again.attempt, again.call, again.key) == (2, 2, asked.key)
    assert recorder.ledger.requests == 2


@pytest.mark.parametrize("code", [400, 401, 402, 403, 404, 422])
def test_a_refusal_of_the_account_ends_it_at_once(code, recorder, meter_of):
    model = meter_of(recorder).wrap(answering(status(code, "no"), "never sent"), "coding")
    with pytest.raises(ModelRejected, match=rf"fake:model: .*{code}.*docs/models.md"):
        ask(model)
    assert recorder.events[-1].kind == "rejected"
    assert recorder.ledger.tokens == 0
    assert recorder.ledger.requests == 1


@pytest.mark.parametrize(
    "error",
    [
        status(413),
        status(400, provider_error_code="content_policy_violation"),
        ModelFault("recorded: nothing usable"),
    ],
)
def test_a_refusal_of_one_request_is_its_fault_alone(error, recorder, meter_of):
    with pytest.raises(ModelFault):
        ask(meter_of(recorder).wrap(answering(error, "never sent"), "coding"))
    assert recorder.ledger.requests == 1


@pytest.mark.parametrize("code", [400, 422])
def test_what_a_model_that_answers_calls_malformed_is_at_fault_alone(code, recorder, meter_of):
    model = meter_of(recorder).wrap(answering("fine", status(code, "no"), "fine"), "coding")
    assert ask(model) == "fine"
    with pytest.raises(ModelFault, match=str(code)):
        ask(model, "other words")
    assert ask(model, "third words") == "fine"


def test_waits_double_up_to_the_last_try(recorder, meter_of, waits):
    model = meter_of(recorder).wrap(answering(*[status(500)] * 9), "coding")
    with pytest.raises(ModelFault, match="no usable answer after 5 tries: server_error"):
        ask(model)
    assert waits.seconds == [1, 2, 4, 8]
    assert recorder.kinds() == ["model_asked", "model_failed"] * 5


def test_a_provider_says_how_long_to_wait(recorder, meter_of, waits):
    model = meter_of(recorder).wrap(answering(status(429, retry_after=77.0), "fine"), "coding")
    ask(model)
    assert waits.seconds == [77.0]


def test_a_wait_that_is_too_long_is_not_begun(recorder, meter_of, waits):
    model = meter_of(recorder).wrap(answering(status(429, retry_after=301.0), "late"), "coding")
    with pytest.raises(ModelFault, match="rate_limited"):
        ask(model)
    assert waits.seconds == []


def test_an_empty_answer_is_asked_for_once_more(recorder, meter_of):
    model = meter_of(recorder).wrap(answering(response(" \n", 70, 30), "fine"), "coding")
    assert ask(model) == "fine"
    assert recorder.events[1].kind == "unusable"
    assert recorder.events[1].charged.tokens == 100


def test_two_empty_answers_are_a_fault(recorder, meter_of):
    model = meter_of(recorder).wrap(
        answering("", response("", finish="content_filter"), "late"), "coding"
    )
    with pytest.raises(ModelFault, match=r"without any text .content_filter"):
        ask(model)
    assert recorder.ledger.requests == 2


@pytest.mark.parametrize("finish", ["length", "content_filter"])
def test_a_cut_answer_is_passed_on_and_says_so(finish, recorder, meter_of):
    model = meter_of(recorder).wrap(answering(response("half a ker", finish=finish)), "coding")
    result = run(Agent(model))
    assert result.output == "half a ker"
    assert result.all_messages()[-1].finish_reason == finish
    assert recorder.events[-1].finish == finish


def test_tokens_are_estimated_where_the_model_reports_none(recorder, meter_of):
    # FunctionModel fills in usage that is empty, so the numbers are impossible ones.
    model = meter_of(recorder).wrap(answering(response("x" * 400, -3, -3)), "coding")
    ask(model, "q" * 40, instructions=None)
    assert recorder.events[-1].usage.model_dump() == {
        "input_tokens": 10,
        "output_tokens": 100,
        "estimated": True,
    }


def test_the_budget_of_tokens_is_set_aside_before_sending(recorder, meter_of):
    meter = meter_of(recorder, tokens=5000)
    model = meter.wrap(answering("a", "b", "c"), "coding")
    ask(model)
    recorder.events.clear()
    with pytest.raises(BudgetSpent, match=r"tokens: 15 of 5,000 are spent .* could take \d"):
        ask(model, "q" * 4000)
    assert recorder.events == []
    assert ask(model) == "b"


def test_the_budget_of_requests_counts_every_try(recorder, meter_of):
    model = meter_of(recorder, requests=2).wrap(answering(status(500), status(500), "x"), "coding")
    with pytest.raises(BudgetSpent, match="requests: all 2"):
        ask(model)
    assert recorder.ledger.requests == 2


def test_the_budget_in_dollars(recorder, meter_of):
    price = Price(input_usd_per_mtok=0.0, output_usd_per_mtok=1000.0)
    meter = meter_of(recorder, usd=1.5, prices={"fake:model": price})
    model = meter.wrap(answering(response("a", 10, 600), "b"), "coding")
    ask(model)
    assert recorder.events[0].reserved.usd == pytest.approx(1.0)
    assert recorder.events[1].charged.usd == pytest.approx(0.6)
    with pytest.raises(BudgetSpent, match=r"usd: 0\.6000 of 1\.5000 .* could take 1\.0000"):
        ask(model)


def test_a_budget_in_dollars_needs_a_price(recorder, meter_of):
    with pytest.raises(UserError, match="fake:model: its price is not known"):
        meter_of(recorder, usd=1.0).wrap(answering("a"), "coding")


def test_an_unknown_price_is_recorded_as_unknown(recorder, meter_of):
    ask(meter_of(recorder).wrap(answering("a"), "coding"))
    assert recorder.events[0].reserved.usd is None
    assert recorder.ledger.unpriced == 1


def test_an_answer_beyond_its_limit_is_charged_and_said(recorder, meter_of):
    told = []
    model = meter_of(recorder, tokens=9000, told=told).wrap(
        answering(response("a", 10, 8000), "b"), "coding"
    )
    ask(model)
    assert recorder.ledger.tokens == 8010
    (note,) = told
    assert "used 8,010 tokens, more than the" in note
    with pytest.raises(BudgetSpent):
        ask(model)


def test_an_endless_answer_is_cut(recorder, meter_of):
    model = meter_of(recorder, max_output_tokens=10).wrap(answering("y" * 5000), "coding")
    assert ask(model) == "y" * 640
    assert recorder.events[-1].finish == "length"


def test_an_agent_may_ask_for_less(recorder, meter_of):
    seen = []
    backend = answering("a")
    function = backend.model.function
    backend.model.function = lambda m, info: seen.append(info.model_settings) or function(m, info)
    model = meter_of(recorder).wrap(backend, "coding")
    run(Agent(model, model_settings={"max_tokens": 7, "temperature": 0.5}))
    assert seen == [{"max_tokens": 7, "temperature": 0.5, "max_retries": 0, "timeout": 30.0}]
    assert recorder.events[0].max_output_tokens == 7


def test_lone_surrogates_are_replaced(recorder, meter_of):
    model = meter_of(recorder).wrap(answering("a\udc80b"), "coding")
    assert ask(model, "q\ud800") == "a?b"
    assert recorder.events[0].messages[-1].text == "q?"


def test_keys_do_not_reach_the_log_or_the_message(recorder, meter_of):
    key = "sk-test-0123456789abcdef"
    meter = meter_of(recorder, environment={"OPENAI_API_KEY": key, "PATH": "/bin"})
    model = meter.wrap(answering(status(401, f"wrong key {key} in /bin")), "coding")
    with pytest.raises(ModelRejected) as caught:
        ask(model)
    assert key not in str(caught.value)
    assert "wrong key [OPENAI_API_KEY] in /bin" in recorder.events[-1].detail
    told = meter.wrap(answering(f"my key is {key}"), "coding")
    assert ask(told) == "my key is [OPENAI_API_KEY]"


def test_a_killed_session_is_charged_what_was_set_aside(recorder, meter_of):
    class Killed(BaseException):
        pass

    model = meter_of(recorder).wrap(answering(Killed()), "coding")
    with pytest.raises(Killed):
        ask(model)
    assert recorder.kinds() == ["model_asked"]
    assert History.fold(recorder.events).ledger.tokens == recorder.events[0].reserved.tokens


def test_a_resumed_round_gets_its_answers_again(recorder, meter_of):
    model = meter_of(recorder).wrap(answering("first", "second", "other"), "coding")
    assert [ask(model), ask(model), ask(model, "Other?")] == ["first", "second", "other"]
    resumed = recorder.killed()
    before = len(resumed.events)
    again = meter_of(resumed, requests=4).wrap(answering("third"), "coding")
    assert [ask(again), ask(again, "Other?"), ask(again)] == ["first", "other", "second"]
    assert len(resumed.events) == before
    assert ask(again) == "third"
    assert resumed.events[-1].call == 4


def test_answers_of_a_round_that_ended_are_not_given_again(recorder, meter_of):
    at = {"at": "t", "elapsed_s": 0.0}
    recorder.journal.log(WorkloadsProposed, accepted=(), refused={})
    ask(meter_of(recorder).wrap(answering("first"), "coding"))
    assert recorder.events[1].round == 1
    ended = Recorder([*recorder.events, RoundEnded(**at, round=1)])
    assert ask(meter_of(ended).wrap(answering("new"), "coding")) == "new"
    assert ended.events[-2].round == 2


def test_another_role_does_not_get_the_answer(recorder, meter_of):
    ask(meter_of(recorder).wrap(answering("first"), "coding"))
    assert ask(meter_of(recorder.killed()).wrap(answering("new"), "planning")) == "new"


def test_a_resumed_answer_is_the_same_to_the_agent(recorder, meter_of):
    first = Agent(meter_of(recorder).wrap(answering(response("a", finish="length")), "coding"))
    live = run(first).all_messages()[-1]
    second = Agent(meter_of(recorder.killed()).wrap(answering(), "coding"))
    again = run(second).all_messages()[-1]
    assert (again.text, again.finish_reason, again.usage) == (
        live.text,
        live.finish_reason,
        live.usage,
    )


def test_agents_in_several_threads(recorder, meter_of):
    model = meter_of(recorder).wrap(answering(*[f"a{n}" for n in range(16)]), "coding")
    answers = []
    threads = [threading.Thread(target=lambda: answers.append(ask(model))) for _ in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(answers) == sorted(f"a{n}" for n in range(16))
    assert sorted(recorder.ledger.asked) == list(range(1, 17))
    assert recorder.ledger.tokens == 16 * 15


def test_an_agent_that_is_called_off_stops_its_request(recorder, meter_of):
    begun, stopped = threading.Event(), []

    async def hangs(messages, info):
        begun.set()
        try:
            await asyncio.sleep(600)
        finally:
            stopped.append(True)

    backend = Backend("fake:model", FunctionModel(hangs), deadline_s=60.0)
    model = meter_of(recorder).wrap(backend, "coding")

    async def impatient():
        asking = asyncio.ensure_future(Agent(model).run("?"))
        await asyncio.to_thread(begun.wait)
        asking.cancel()
        await asking

    with pytest.raises(asyncio.CancelledError):
        asyncio.run(impatient())
    assert stopped == [True]
    assert recorder.kinds() == ["model_asked"]
