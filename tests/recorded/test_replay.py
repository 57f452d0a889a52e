"""A recorded run, replayed: same agents, same decisions, no compiler and no device.

A refactoring leaves this green. A change that is meant to alter what the agents write is recorded anew with scripts/record.
"""

from pathlib import Path

import pytest

from astra_kernels.app.compose import optimizer
from astra_kernels.app.runs import read_run
from astra_kernels.evaluation.replay import ReplayEvaluator
from astra_kernels.records.history import History
from astra_kernels.store import RunStore

RUN = Path(__file__).parent / "sigmoid"


class Replay(ReplayEvaluator):
    """Also takes what the composition hands to an evaluator when a run is continued."""

    def learn_baseline(self, evaluation, seed):
        pass


def decisions(events):
    """What was decided, without times."""
    return [event.model_dump(exclude={"at", "elapsed_s"}) for event in events]


@pytest.fixture
def recorded():
    return RunStore.open(RUN).events()


def replay(events, keep):
    run = read_run(RUN)
    written = list(events[:keep])
    evaluator = Replay(ReplayEvaluator.from_events(events).recorded)
    optimizer(
        run.problem, evaluator, History.fold(written), written.append, run.history.config
    ).run()
    return written


def test_the_event_stream_is_the_recorded_one(recorded):
    assert decisions(replay(recorded, 1)) == decisions(recorded)


@pytest.mark.parametrize("share", [0.3, 0.6, 0.9])
def test_a_run_cut_short_ends_as_the_recorded_one(recorded, share):
    cut = max(1, int(len(recorded) * share))
    again = History.fold(replay(recorded, cut))
    whole = History.fold(recorded)
    assert again.finished.best == whole.finished.best
    assert [a.candidate.id for a in again.attempts] == [a.candidate.id for a in whole.attempts]
