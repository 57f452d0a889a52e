"""Whatever a provider does: the budget holds, the log is whole, and only three errors come out."""

import random
import threading
from collections import Counter

import pytest

from astra_kernels.errors import BudgetSpent, ModelFault, ModelRejected
from astra_kernels.models.backend import Backend
from astra_kernels.models.ledger_gate import LedgerGate
from astra_kernels.models.limits import Limits, Patience
from astra_kernels.models.meter import Meter
from astra_kernels.models.prices import Price
from astra_kernels.models.secrets import Secrets
from astra_kernels.records.history import History
from astra_kernels.records.run import Budget
from astra_kernels.store import RunStore
from tests.models.conftest import Recorder, Waits, ask
from tests.models.fake_provider import FaultyModel

SAMPLE, ALL = 12, 200
ROLES = ("testing", "profiling", "planning", "coding")


def a_run(seed, overdraws=False):
    """Several agents ask a faulty provider until they have had enough or the budget is spent."""
    chance = random.Random(seed)
    recorder, waits, told = Recorder(), Waits(), []
    budget = Budget(
        requests=chance.choice([None, 3, 20]),
        tokens=chance.choice([None, 4_000, 20_000, 200_000]),
        usd=chance.choice([None, 0.01, 1.0]),
    )
    limits = Limits(
        max_output_tokens=chance.choice([10, 300]),
        patience=Patience(tries=chance.choice([1, 3, 5]), sleep=waits, jitter=chance.random),
        prices={"fake:faulty": Price(1.0, 8.0)},
    )
    model = FaultyModel(seed, faults=chance.choice([0.2, 0.6, 1.0]), overdraws=overdraws)
    meter = Meter(LedgerGate(recorder.journal, budget), Secrets({}), limits, told.append)
    backend = Backend("fake:faulty", model, deadline_s=0.05)
    outcomes = []

    def agent(number):
        wrapped = meter.wrap(backend, ROLES[number % 4])
        for question in range(6):
            try:
                ask(wrapped, f"{number} asks {question}: " + "?" * 40)
                outcomes.append("answer")
            except (BudgetSpent, ModelFault, ModelRejected) as error:
                outcomes.append(type(error).__name__)
            except BaseException as error:
                outcomes.append(f"{error!r}")
                raise

    threads = [threading.Thread(target=agent, args=(n,)) for n in range(chance.choice([1, 4]))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    meter.loop.close()
    return recorder, budget, limits, model, outcomes, told


def check(seed, outcomes_seen, overdraws=False):
    recorder, budget, limits, model, outcomes, told = a_run(seed, overdraws)
    ledger = recorder.ledger
    assert set(outcomes) <= {"answer", "BudgetSpent", "ModelFault", "ModelRejected"}
    # What is on record is what was sent, each with exactly one end.
    assert ledger.requests == model.sent
    assert Counter(recorder.kinds())["model_asked"] == len(ledger.asked)
    ends = Counter(e.call for e in recorder.events if e.event != "model_asked")
    assert ends == Counter(ledger.asked.keys())
    for asked in ledger.asked.values():
        assert asked.attempt <= limits.patience.tries
    assert sum(o == "answer" for o in outcomes) == len(ledger.answered)
    # The fold of the log is the live state, also after it was written to disk.
    assert History.fold(recorder.events) == recorder.journal.history
    # No budget is overspent, except by what a provider says it used beyond its bound; that is said.
    over = {
        c: a
        for c, a in ledger.answered.items()
        if a.charged.tokens > ledger.asked[c].reserved.tokens
    }
    assert len(told) == len(over)
    assert overdraws or not over
    excess = sum(a.charged.tokens - ledger.asked[c].reserved.tokens for c, a in over.items())
    if budget.requests is not None:
        assert ledger.requests <= budget.requests
    if budget.tokens is not None:
        assert ledger.tokens <= budget.tokens + excess
    if budget.usd is not None and not over:
        assert ledger.usd <= budget.usd
    outcomes_seen.update(outcomes)
    outcomes_seen.update(f.kind for f in ledger.failed.values())
    return recorder


def test_a_sample_of_runs(tmp_path):
    seen = Counter()
    for seed in range(SAMPLE):
        recorder = check(seed, seen)
    assert {"answer", "BudgetSpent", "ModelFault"} <= seen.keys()
    store = RunStore.create(tmp_path / "run")
    for event in recorder.events:
        store.append(event)
    assert store.events() == recorder.events


def test_a_provider_that_uses_more_than_it_may():
    for seed in range(SAMPLE // 2):
        check(seed, Counter(), overdraws=True)


@pytest.mark.full
def test_many_runs():
    seen = Counter()
    for seed in range(SAMPLE, SAMPLE + ALL):
        check(seed, seen, overdraws=seed % 4 == 0)
    kinds = {"rate_limited", "server_error", "timed_out", "connection", "rejected", "unusable"}
    assert {"answer", "BudgetSpent", "ModelFault", "ModelRejected"} | kinds <= seen.keys()
