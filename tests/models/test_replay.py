"""`replay:`, from a recorded journal."""

from pathlib import Path

import pytest
from pydantic_ai import Agent, ModelRetry
from pydantic_ai.exceptions import ModelHTTPError

from astra_kernels.errors import BudgetSpent, ModelFault, ModelRejected
from astra_kernels.models.opening import Surroundings, open_models
from astra_kernels.records.run import Budget, RunConfig, WorkloadsProposed
from tests.models import openai_server as say
from tests.models.conftest import Recorder, answering, ask, response, run


@pytest.fixture
def replaying():
    opened = []

    def make(recorded, recorder, **budget):
        def read_run(path):
            assert path == Path("runs/old")
            return recorded.journal.history

        config = RunConfig(
            device="sim:h200", agents="multi", model="replay:runs/old", budget=Budget(**budget)
        )
        opened.append(open_models(config, recorder.journal, Surroundings({}, read_run)))
        return opened[-1]

    yield make
    for models in opened:
        models.close()


@pytest.fixture
def recorded(meter_of):
    """A run that asked three things; the second with a fault in between, the third in vain."""
    recorded = Recorder()
    meter = meter_of(recorded)
    coder = meter.wrap(
        answering("one", ModelHTTPError(500, "m"), response("two", finish="length"), "", ""),
        "coding",
    )
    ask(coder, "first\nsame\nsame")
    ask(coder, "first\nsame\nsame")
    with pytest.raises(ModelFault):
        ask(coder, "hopeless")
    return recorded


def test_a_request_gets_its_recorded_answers_in_their_order(recorded, recorder, replaying):
    coder = replaying(recorded, recorder)("coding")
    assert [ask(coder, "first\nsame\nsame") for _ in range(2)] == ["one", "two"]
    assert recorder.events[-1].finish == "length"
    assert recorder.events[-1].charged.model_dump() == {"tokens": 15, "usd": 0.0}
    with pytest.raises(ModelFault, match="after 2 tries: unusable: an answer without any text"):
        ask(coder, "hopeless")
    assert recorder.kinds()[-1] == "model_failed"


def test_a_request_that_was_not_recorded_is_shown_beside_the_closest(recorded, recorder, replaying):
    recorder.journal.log(WorkloadsProposed, accepted=(), refused={})
    coder = replaying(recorded, recorder)("coding")
    with pytest.raises(ModelRejected) as caught:
        ask(coder, "changed\nsame\nsame")
    message = str(caught.value)
    assert message.startswith("replay:runs/old: the coding agent asks in round 1")
    assert "\n-first\n+changed\n" in message
    assert "hopeless" not in message


def test_a_role_that_was_not_recorded(recorded, recorder, replaying):
    with pytest.raises(ModelRejected, match="no request of the planning agent"):
        ask(replaying(recorded, recorder)("planning"), "first\nsame\nsame")


def test_an_answer_is_not_given_twice(recorded, recorder, replaying):
    coder = replaying(recorded, recorder)("coding")
    for _ in range(2):
        ask(coder, "first\nsame\nsame")
    with pytest.raises(ModelRejected, match="more often than the recorded run"):
        ask(coder, "first\nsame\nsame")


def test_a_replay_that_is_resumed_goes_on_where_it_was(recorded, recorder, replaying):
    ask(replaying(recorded, recorder)("coding"), "first\nsame\nsame")
    again = recorder.killed()
    coder = replaying(recorded, again)("coding")
    assert [ask(coder, "first\nsame\nsame") for _ in range(2)] == ["one", "two"]
    assert again.ledger.requests == 2


def test_a_replay_keeps_to_its_budget(recorded, recorder, replaying):
    coder = replaying(recorded, recorder, requests=1)("coding")
    ask(coder, "first\nsame\nsame")
    with pytest.raises(BudgetSpent):
        ask(coder, "first\nsame\nsame")


def test_a_run_without_models_cannot_be_replayed(recorder, replaying):
    with pytest.raises(ModelRejected, match="asked no language model"):
        replaying(Recorder(), recorder)


def test_a_conversation_recorded_with_one_provider_replays(recorder, replaying, waits):
    """What went wrong with an answer is told to each provider in its own form; the record is the same."""

    def converse(model):
        agent = Agent(model, instructions="I", output_type=str, retries=2)

        @agent.output_validator
        def check(text: str) -> str:
            if text == "bad":
                raise ModelRetry("not a kernel")
            return text

        return run(agent, "Write.")

    recorded = Recorder()
    with say.serving(say.answer("bad"), say.answer("good")) as server:
        config = RunConfig(device="sim:h200", model=f"openai:small@{server.url}")
        with open_models(config, recorded.journal, Surroundings({}, print)) as models:
            assert converse(models("coding")).output == "good"
    assert converse(replaying(recorded, recorder)("coding")).output == "good"
    assert [a.key for a in recorder.ledger.asked.values()] == [
        a.key for a in recorded.ledger.asked.values()
    ]
