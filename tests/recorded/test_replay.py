"""Recorded runs, replayed: same agents, same decisions, no compiler and no device.

A refactoring leaves this green. A change that is meant to alter what the agents write is recorded anew with scripts/record.
"""

import shutil
import tarfile
from pathlib import Path

import pytest

from astra_kernels.app.replays import replay
from astra_kernels.app.runs import read_run
from astra_kernels.errors import RunError
from astra_kernels.evaluation.replay import ReplayEvaluator
from astra_kernels.records.candidate import Candidate
from astra_kernels.records.canonical import canonical
from astra_kernels.records.history import History
from astra_kernels.rounds import fails_surely
from astra_kernels.store import EVENTS, TEXTS, RunStore

ARCHIVES = Path(__file__).parents[2] / "docs" / "results" / "h200-2026-12-01" / "runs"
RUNS = sorted(p.parent for p in Path(__file__).parent.glob("*/events.jsonl"))


@pytest.fixture(params=RUNS, ids=lambda p: p.name)
def run(request):
    return request.param


def test_a_run_decides_today_what_it_decided_when_it_was_recorded(run):
    replayed = replay(run)
    assert not replayed.divergence
    assert canonical(replayed.events) == canonical(replayed.recorded)
    assert len(replayed.events) > 5


def archives():
    """Runs of docs/results; those of rules are from before a screening device ranked, as their README says."""
    for path in sorted(ARCHIVES.glob("*.tar.xz")):
        if not path.name.startswith("rules-"):
            marks = () if path.name.startswith("multi-silu") else pytest.mark.full
            yield pytest.param(path, id=path.name, marks=marks)


@pytest.mark.parametrize("archive", [*archives()])
def test_an_archived_run_decides_today_what_it_decided_when_it_was_recorded(archive, tmp_path):
    with tarfile.open(archive) as packed:
        packed.extractall(tmp_path, filter="data")
    replayed = replay(tmp_path / archive.name.removesuffix(".tar.xz"))
    assert not replayed.divergence
    assert canonical(replayed.events) == canonical(replayed.recorded)


@pytest.mark.parametrize("share", [0.3, 0.6, 0.9])
def test_a_run_that_was_cut_short_is_followed_as_far_as_it_went(run, share, tmp_path):
    copy = shutil.copytree(run, tmp_path / "run")
    lines = (copy / EVENTS).read_text().splitlines(keepends=True)
    (copy / EVENTS).write_text("".join(lines[: max(1, int(len(lines) * share))]))
    RunStore.open(copy).events()
    replayed = replay(copy)
    assert not replayed.divergence
    known = canonical(replayed.recorded)
    assert canonical(replayed.events)[: len(known)] == known


def test_what_was_judged_otherwise_is_a_divergence(run, tmp_path):
    copy = shutil.copytree(run, tmp_path / "run")
    log = copy / EVENTS
    events = RunStore.open(run).events()
    fastest = History.fold(events).ranked()[0].candidate
    lines = log.read_text().splitlines(keepends=True)
    judged = (e.event == "candidate_evaluated" and e.candidate.id == fastest.id for e in events)
    del lines[list(judged).index(True)]
    log.write_text("".join(lines))
    assert fastest.title in replay(copy).divergence


def test_a_run_is_shown_without_the_words_of_models_and_replayed_only_with_them(run, tmp_path):
    copy = shutil.copytree(run, tmp_path / "run")
    shutil.rmtree(copy / TEXTS, ignore_errors=True)
    assert read_run(copy, words=False).history.attempts
    if (run / TEXTS).is_dir():
        with pytest.raises(RunError, match=rf"{TEXTS}/\w+ is missing"):
            replay(copy)


def test_what_was_screened_and_never_judged_had_passed(run):
    evaluator = ReplayEvaluator.from_events(RunStore.open(run).events())
    unknown = Candidate(sources={"k.cu": "unknown"})
    (said,) = evaluator.screened([unknown], "sim:h100")
    assert not fails_surely(said, "sim:h100")


def test_a_candidate_that_was_never_judged_is_a_fault(run):
    events = RunStore.open(run).events()
    evaluator = ReplayEvaluator.from_events(events)
    history = History.fold(events)
    evaluation = evaluator.evaluate(history.attempts[0].candidate, (), 0, "search")
    assert evaluation == history.attempts[0].evaluation
