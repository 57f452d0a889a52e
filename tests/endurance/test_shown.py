"""What went wrong with models is shown, by kind, to people and to programs."""

import json
import random
import shutil

import pytest

from astra_kernels.app import commands
from astra_kernels.app.live import watcher
from astra_kernels.records.history import History
from astra_kernels.records.run import Budget
from astra_kernels.store import RunStore
from tests.endurance.runs import RECORDED, configuration, session, start


@pytest.fixture
def run(tmp_path):
    """A run of one round in which hardly anything goes well."""
    config = configuration(random.Random(0)).model_copy(
        update={"agents": "multi", "budget": Budget(rounds=2, tokens=10_000_000)}
    )
    endured = start(tmp_path / "run", config)
    session(endured, random.Random(3), faults=0.8)
    return endured.directory


def test_show_counts_requests_and_faults(run, capsys):
    commands.show(run, as_json=False)
    shown = capsys.readouterr().out
    ledger = History.fold(RunStore.open(run).events()).ledger
    assert (
        f"models: {ledger.requests} requests, {ledger.tokens:,} tokens, {ledger.usd:.4f} USD"
        in shown
    )
    assert "budget: 10,000,000 tokens" in shown
    assert f"tries without an answer: {len(ledger.failed)} (" in shown
    assert "requests given up: " in shown
    commands.show(run, as_json=True)
    models = json.loads(capsys.readouterr().out)["models"]
    assert (models["requests"], models["tokens"]) == (ledger.requests, ledger.tokens)
    assert sum(models["failures"].values()) == len(ledger.failed)
    assert sum(models["requests_by_role"].values()) == ledger.requests


def test_a_run_without_models_says_nothing_of_them(tmp_path, capsys):
    commands.show(shutil.copytree(RECORDED, tmp_path / "run"), as_json=False)
    assert "models:" not in capsys.readouterr().out


def test_faults_are_told_while_the_run_goes_on(run, capsys):
    history = History()
    with watcher(quiet=False) as watch:
        for event in RunStore.open(run).events():
            watch(event, history)
            history.append(event)
    told = capsys.readouterr().err
    failed = history.ledger.failed.values()
    assert told.count(", try ") + told.count("given up: ") == len(failed) > 3
    assert told.count("given up: ") == sum(bool(f.told) for f in failed)
    assert f"models: {history.ledger.requests} requests" in told
