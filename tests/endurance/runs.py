"""Whole runs through the real loop, roles, meter and store, with a model on which everything goes wrong."""

import random
import shutil
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from astra_kernels.agents.llm.briefing.counters import citable
from astra_kernels.app.modes import resolved
from astra_kernels.app.render_calls import calls_document
from astra_kernels.app.replays import replay
from astra_kernels.app.runs import PROBLEM, read_run
from astra_kernels.app.team import Engagement, with_models
from astra_kernels.errors import ModelRejected
from astra_kernels.models.backend import Backend
from astra_kernels.models.ledger_gate import LedgerGate
from astra_kernels.models.limits import Limits, Patience
from astra_kernels.models.meter import Meter
from astra_kernels.models.opening import Models
from astra_kernels.models.prices import Price
from astra_kernels.models.secrets import Secrets
from astra_kernels.optimize import Optimizer
from astra_kernels.records.history import History
from astra_kernels.records.journal import Journal
from astra_kernels.records.run import Budget, RunResumed, RunStarted
from astra_kernels.store import EVENTS, RunStore
from tests.endurance.scripted import EMPTY, FATAL, NAME, RAISED, ScriptedModel
from tests.endurance.table import ContentTable

RECORDED = Path(__file__).parents[1] / "recorded" / "sigmoid"
ROLES = ("testing", "profiling", "planning", "coding")
LATE_S = 0.2
"""A model that has not answered by then never will."""


@dataclass
class Endured:
    """What became of one run, over all its sessions."""

    directory: Path
    config: object
    evaluators: list = field(default_factory=list)
    models: list = field(default_factory=list)
    rejected: int = 0
    """Sessions that ended because the provider refused every request."""

    @property
    def did(self):
        """What the models did, by kind."""
        return sum((m.did for m in self.models), Counter())


def configuration(chance):
    """A run of any mode and strategy, with any budget."""
    budget = Budget(
        rounds=chance.choice([1, 2, 3, 5]),
        candidates=chance.choice([None, None, 1, 4, 9]),
        seconds=chance.choice([None, None, None, None, 0.3, 1.0]),
        requests=chance.choice([None, None, 1, 4, 12, 40]),
        tokens=chance.choice([None, None, 20_000, 100_000, 400_000]),
        usd=chance.choice([None, None, 0.05, 0.3, 2.0]),
    )
    strategy = chance.choice(["beam", "linear"])
    given = {
        "model": NAME,
        "agents": chance.choice(["multi", "single", "hybrid"]),
        "strategy": strategy,
        "keep_best": strategy == "beam" or chance.random() < 0.7,
        "repairs": chance.choice([0, 1, 2]),
        "memory": False,
        "budget": budget,
    }
    return resolved(given, device="sim:h200")


def start(directory, config):
    """A run that has begun, on disk."""
    recorded = read_run(RECORDED)
    store = RunStore.create(directory)
    shutil.copytree(RECORDED / PROBLEM, directory / PROBLEM)
    store.append(
        RunStarted(
            at="2026-01-01T00:00:00.000+00:00", elapsed_s=0.0, config=config, problem=recorded.problem.name,
            problem_digest=recorded.problem.digest, astra_version="0",
        )
    )  # fmt: skip
    return Endured(directory, config)


def session(endured, chance, *, faults, fatal=0.0):
    """One session of a run, from its log to its end or to a provider that refuses everything; returns the live history."""
    store = RunStore.open(endured.directory)
    store.cut_torn_line()
    run = read_run(endured.directory)
    baseline = read_run(RECORDED).history.baseline_evaluation
    evidence = [(name, values[0]) for name, values in citable(baseline).items()]
    model = ScriptedModel(chance.random(), faults, fatal=fatal, evidence=evidence)
    table = ContentTable(baseline, run.problem.baseline.id)
    endured.models.append(model)
    endured.evaluators.append(table)
    journal = Journal(run.history, store.append)
    if len(run.history.ledger.asked) or run.history.baseline_evaluation is not None:
        journal.log(RunResumed, astra_version="0")
    limits = Limits(
        max_output_tokens=chance.choice([500, 4000, 32768]),
        patience=Patience(tries=chance.choice([1, 3, 5]), sleep=_at_once, jitter=chance.random),
        prices={NAME: Price(1.0, 8.0)},
    )
    meter = Meter(LedgerGate(journal, endured.config.budget), Secrets({}), limits)
    backend = Backend(NAME, model, deadline_s=LATE_S)
    with Models(meter, {role: meter.wrap(backend, role) for role in ROLES}) as models:
        team = with_models(Engagement(run.problem, endured.config, run.directory), models)
        seeds = iter(range(1000, 2000))
        loop = Optimizer(run.problem, endured.config, team, table, journal, lambda: next(seeds))
        try:
            return loop.run()
        except ModelRejected:
            endured.rejected += 1
            return run.history


async def _at_once(seconds):
    """Nobody waits here."""


def a_run(seed, directory):
    """A run to its end: after a provider that refuses everything, the user mends that and goes on."""
    chance = random.Random(seed)
    endured = start(directory, configuration(chance))
    faults = chance.choice([0.0, 0.2, 0.5, 0.8, 1.0])
    fatal = chance.choice([0.0, 0.0, 0.02])
    history = session(endured, chance, faults=faults, fatal=fatal)
    while history.finished is None:
        assert endured.rejected, "only a provider that refuses everything ends a session early"
        history = session(endured, chance, faults=faults)
    check(endured, history)
    return endured


def cut(endured, directory, chance):
    """The run as a kill at a random moment would have left it: whole lines, and perhaps half of the next."""
    shutil.copytree(endured.directory, directory)
    log = directory / EVENTS
    lines = log.read_bytes().splitlines(keepends=True)
    kept = chance.randrange(1, len(lines))
    torn = lines[kept][: chance.randrange(len(lines[kept]))]
    log.write_bytes(b"".join(lines[:kept]) + torn)
    return Endured(directory, endured.config)


def a_resumed_run(seed, endured, directory):
    """The same run, cut anywhere and gone on with, with a model that answers otherwise."""
    chance = random.Random(-seed)
    again = cut(endured, directory, chance)
    before = judged(RunStore.open(directory).events())
    history = session(again, chance, faults=chance.choice([0.0, 0.3, 0.8]))
    check(again, history, before=before)
    return again


def judged(events):
    """Candidates with an evaluation in the log, the baseline included."""
    kinds = ("baseline_evaluated", "candidate_evaluated")
    return Counter(e.candidate.id for e in events if e.event in kinds)


def check(endured, history, before=None):
    """Finished, folded alike, within every budget, nothing judged twice or lost, everything on record; replays."""
    events = RunStore.open(endured.directory).events()
    assert history.finished is not None and events[-1].event == "run_finished"
    assert History.fold(events) == history
    check_evaluations(endured, events, before or Counter())
    check_ledger(endured, history.ledger, resumed=before is not None)
    check_budget(endured.config.budget, history)
    replayed = replay(endured.directory)
    assert not replayed.divergence, replayed.divergence


def check_evaluations(endured, events, before):
    in_log = judged(events)
    assert set(in_log.values()) == {1}, "judged twice"
    gave = sum((e.gave for e in endured.evaluators), Counter())
    baseline = next(e.candidate.id for e in events if e.event == "baseline_evaluated")
    for counted in (in_log, gave, before):
        del counted[baseline]  # workloads that are proposed are judged with it
    assert gave == in_log - before, "an evaluation is lost, or was asked for again"


def check_ledger(endured, ledger, *, resumed):
    ends = Counter([*ledger.answered, *ledger.failed])
    assert set(ends.values()) <= {1}
    lost = ledger.asked.keys() - ends.keys()
    if not resumed:
        assert ledger.requests == sum(m.sent for m in endured.models)
        assert not lost, "every request has an end in the log"
        failed = sum(endured.did[kind] for kind in (*RAISED, *EMPTY, FATAL))
        assert failed <= len(ledger.failed), "a fault is not on record"
    shown = calls_document(ledger)
    assert sum(shown["failures"].values()) == len(ledger.failed)
    assert shown["lost_in_flight"] == len(lost)
    for call in lost:
        assert ledger.charge_of(call) == ledger.asked[call].reserved


def check_budget(budget, history):
    ledger = history.ledger
    assert history.rounds_ended <= budget.rounds
    assert budget.candidates is None or len(history.attempts) <= budget.candidates
    assert budget.requests is None or ledger.requests <= budget.requests
    assert budget.tokens is None or ledger.tokens <= budget.tokens
    assert budget.usd is None or ledger.usd <= budget.usd
