"""Names of models: which are understood, and what is said of the others."""

import subprocess
import sys

import pytest

from astra_kernels.errors import ModelRejected, SetupError, UserError
from astra_kernels.models.limits import Limits
from astra_kernels.models.opening import Surroundings, open_models
from astra_kernels.models.prices import Price
from astra_kernels.records.run import Budget, RunConfig
from tests.models.conftest import Recorder

KEYS = (
    "OPENAI_API_KEY",
    "ANTHROPIC_API_KEY",
    "GOOGLE_API_KEY",
    "GEMINI_API_KEY",
    "OPENAI_BASE_URL",
)


@pytest.fixture(autouse=True)
def no_keys(monkeypatch):
    for name in KEYS:
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def open_named(recorder):
    opened = []

    def make(name, models=None, environment=None, prices=None, **budget):
        config = RunConfig(
            device="sim:h200",
            agents="multi",
            model=name,
            models=models or {},
            budget=Budget(**budget),
        )
        around = Surroundings(environment or {}, lambda path: None, Limits(prices=prices or {}))
        opened.append(open_models(config, recorder.journal, around))
        return opened[-1]

    yield make
    for models in opened:
        models.close()


@pytest.mark.parametrize(
    ("name", "variable", "system"),
    [
        ("openai:gpt-5", "OPENAI_API_KEY", "openai"),
        ("openai-chat:gpt-4o", "OPENAI_API_KEY", "openai"),
        ("anthropic:claude-sonnet-4-5", "ANTHROPIC_API_KEY", "anthropic"),
        ("google:gemini-2.5-pro", "GOOGLE_API_KEY", "google"),
    ],
)
def test_providers_are_named_as_pydantic_ai_names_them(
    name, variable, system, open_named, monkeypatch
):
    with pytest.raises(ModelRejected, match=variable):
        open_named(name)
    monkeypatch.setenv(variable, "sk-0123456789abcdef")
    model = open_named(name, usd=1.0)("coding")
    assert (model.system, model.model_name) == (system, name.partition(":")[2])


@pytest.mark.parametrize(
    ("name", "error", "says"),
    [
        ("gpt-5", UserError, "a model is PROVIDER:MODEL"),
        ("openai:", UserError, "a model is PROVIDER:MODEL"),
        ("openia:gpt-5", ModelRejected, "Unknown model"),
        ("groq:llama", SetupError, "pip install"),
        ("openai:m@ftp://host", UserError, "http://HOST:PORT/v1"),
        ("openai:m@host:8000", UserError, "http://HOST:PORT/v1"),
        ("openai:@http://host", UserError, "http://HOST:PORT/v1"),
        ("openai:m@http://me:secret@host/v1", UserError, "OPENAI_COMPATIBLE_API_KEY"),
    ],
)
def test_names_that_cannot_be_opened(name, error, says, open_named):
    with pytest.raises(error, match=says) as caught:
        open_named(name)
    assert "secret" not in str(caught.value)


def test_a_role_may_have_a_model_of_its_own(open_named, tmp_path):
    models = open_named("cli:cat", models={"coding": f"manual:{tmp_path}"})
    assert [models(r).system for r in ("testing", "profiling", "planning", "coding")] == [
        "cli", "cli", "cli", "manual",
    ]  # fmt: skip


def test_a_role_without_a_model(open_named):
    models = open_named(None, models={"coding": "cli:cat"})
    assert models("coding").model_name == "cli:cat"
    with pytest.raises(UserError, match="no model for the planning agent"):
        models("planning")


def test_a_budget_in_dollars_with_a_server_of_ones_own(open_named):
    name = "openai:gpt-4o@http://localhost:1/v1"
    with pytest.raises(UserError, match="price is not known"):
        open_named(name, usd=1.0)
    open_named(name, usd=1.0, prices={name: Price(0.1, 0.2)})


def test_openai_itself_may_be_named_by_the_base_url(open_named, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-0123456789abcdef")
    environment = {"OPENAI_BASE_URL": "https://eu.api.openai.com/v1"}
    assert open_named("openai:gpt-5", environment=environment)("coding").system == "openai"


def test_opening_loads_nothing_until_a_model_is_asked_for():
    code = (
        "import sys, astra_kernels.models.opening\n"
        "heavy = {'pydantic_ai', 'openai', 'anthropic', 'google.genai', 'genai_prices', 'httpx'}\n"
        "assert not heavy & sys.modules.keys(), heavy & sys.modules.keys()"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


def test_a_run_in_rules_mode_opens_nothing():
    config = RunConfig(device="sim:h200")
    with (
        open_models(config, Recorder().journal, Surroundings({}, lambda path: None)) as models,
        pytest.raises(UserError),
    ):
        models("coding")
