"""The provider of OpenAI-compatible servers, against a server."""

import pytest

from astra_kernels.errors import ModelFault, ModelRejected
from astra_kernels.models.limits import Limits, Patience
from astra_kernels.models.opening import Surroundings, open_models
from astra_kernels.records.run import Budget, RunConfig
from tests.models import openai_server as say
from tests.models.conftest import ask

KEY = "sk-compatible-0123456789"


@pytest.fixture
def models_at(recorder, waits):
    opened = []

    def make(name, request_s=20.0, environment=None, **budget):
        limits = Limits(
            request_s=request_s, patience=Patience(sleep=waits, tries=3), max_output_tokens=500
        )
        around = Surroundings(environment or {}, _no_run, limits)
        config = RunConfig(device="sim:h200", agents="multi", model=name, budget=Budget(**budget))
        opened.append(open_models(config, recorder.journal, around))
        return opened[-1]

    yield make
    for models in opened:
        models.close()


def _no_run(path):
    raise AssertionError(path)


def test_an_answer_with_its_usage(recorder, models_at):
    with say.serving(say.answer("Use float4.")) as server:
        name = f"openai:org/small:7b@{server.url}"
        environment = {"OPENAI_COMPATIBLE_API_KEY": KEY, "OPENAI_API_KEY": "sk-of-openai-itself"}
        assert ask(models_at(name, environment=environment)("coding")) == "Use float4."
        ((path, headers, body),) = server.requests
    assert path == "/v1/chat/completions"
    assert headers["Authorization"] == f"Bearer {KEY}"
    assert (body["model"], body["max_tokens"], body["messages"]) == (
        "org/small:7b",
        500,
        [
            {"role": "system", "content": "You write CUDA."},
            {"role": "user", "content": "How fast?"},
        ],
    )
    assert recorder.events[0].model == name
    assert recorder.events[1].charged.tokens == 18


def test_a_server_named_by_the_environment_gets_the_key_beside_it(models_at):
    with say.serving(say.answer("yes")) as server:
        environment = {"OPENAI_BASE_URL": server.url, "OPENAI_API_KEY": KEY}
        assert ask(models_at("openai:small", environment=environment)("coding")) == "yes"
        assert server.requests[0][1]["Authorization"] == f"Bearer {KEY}"


def test_no_usage_is_estimated(recorder, models_at):
    with say.serving(say.answer("x" * 40, usage=None)) as server:
        ask(models_at(f"openai:small@{server.url}")("coding"))
    usage = recorder.events[-1].usage
    assert (usage.estimated, usage.output_tokens) == (True, 10)


def test_a_rate_limit_says_how_long_to_wait(recorder, models_at, waits):
    with say.serving(
        say.error(429, "slow down", [("Retry-After", "7")]), say.answer("ok")
    ) as server:
        assert ask(models_at(f"openai:small@{server.url}")("coding")) == "ok"
        assert len(server.requests) == 2
    assert waits.seconds == [7.0]
    assert (recorder.events[1].kind, recorder.events[1].charged.tokens) == ("rate_limited", 0)


def test_server_errors_are_asked_again_by_the_meter_alone(recorder, models_at):
    with say.serving(*[say.error(500, "oh")] * 3) as server:
        with pytest.raises(ModelFault, match="3 tries"):
            ask(models_at(f"openai:small@{server.url}")("coding"))
        assert len(server.requests) == 3
    assert recorder.ledger.requests == 3
    assert recorder.ledger.tokens == 0


def test_a_connection_cut_in_the_middle_is_charged(recorder, models_at):
    with say.serving(say.cut, say.answer("ok")) as server:
        assert ask(models_at(f"openai:small@{server.url}")("coding")) == "ok"
    asked, failed = recorder.events[:2]
    assert (failed.kind, failed.charged) == ("connection", asked.reserved)


def test_a_refused_connection_costs_nothing(recorder, models_at):
    with say.serving() as server:
        name = f"openai:small@{server.url}"
    with pytest.raises(ModelFault, match="connection"):
        ask(models_at(name)("coding"))
    assert {e.kind for e in recorder.events if e.event == "model_failed"} == {"connection"}
    assert recorder.ledger.tokens == 0


def test_a_key_that_the_server_repeats_is_taken_out(recorder, models_at):
    with say.serving(say.error(401, f"Incorrect API key: {KEY}")) as server:
        models = models_at(
            f"openai:small@{server.url}", environment={"OPENAI_COMPATIBLE_API_KEY": KEY}
        )
        with pytest.raises(
            ModelRejected, match=r"Incorrect API key: .OPENAI_COMPATIBLE_API_KEY."
        ) as caught:
            ask(models("coding"))
    assert KEY not in str(caught.value) + "".join(e.model_dump_json() for e in recorder.events)
    assert recorder.events[-1].kind == "rejected"


def test_a_request_that_is_too_long_is_at_fault_itself(recorder, models_at):
    message = "This model's maximum context length is 4096 tokens."
    with (
        say.serving(say.error(400, message)) as server,
        pytest.raises(ModelFault, match="maximum context length"),
    ):
        ask(models_at(f"openai:small@{server.url}")("coding"))
    assert recorder.events[-1].kind == "rejected"


def test_an_unknown_model_is_refused(models_at):
    with (
        say.serving(say.error(404, "no such model", code="model_not_found")) as server,
        pytest.raises(ModelRejected, match="no such model"),
    ):
        ask(models_at(f"openai:small@{server.url}")("coding"))


def test_a_server_that_says_nothing(recorder, models_at):
    with say.serving(say.silent, say.answer("ok")) as server:
        assert ask(models_at(f"openai:small@{server.url}", request_s=0.3)("coding")) == "ok"
    asked, failed = recorder.events[:2]
    assert (failed.kind, failed.charged) == ("timed_out", asked.reserved)


@pytest.mark.parametrize("data", [b"<html>oops</html>", b'{"choices": []}', b""])
def test_an_answer_that_is_none(data, recorder, models_at):
    with say.serving(say.raw(data), say.answer("ok")) as server:
        assert ask(models_at(f"openai:small@{server.url}")("coding")) == "ok"
    asked, failed = recorder.events[:2]
    assert failed.charged == asked.reserved


def test_a_truncated_answer_says_so(recorder, models_at):
    with say.serving(say.answer("half a ker", finish="length")) as server:
        ask(models_at(f"openai:small@{server.url}")("coding"))
    assert recorder.events[-1].finish == "length"


def test_an_answer_of_another_finish_is_still_one(recorder, models_at):
    with say.serving(say.answer("ok", finish="eos")) as server:
        assert ask(models_at(f"openai:small@{server.url}")("coding")) == "ok"
