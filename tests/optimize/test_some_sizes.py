"""A candidate that is ahead at some sizes and not over all of them: looked at again, never the winner, never lost."""

import dataclasses

from astra_kernels.records.candidate import Candidate
from astra_kernels.records.evaluation import Modelled, SafetyCheck, WorkloadResult
from astra_kernels.records.guarded import ahead_at_some_sizes, some_sizes_said
from astra_kernels.records.history import History
from astra_kernels.records.run import Budget
from tests.optimize.stand_ins import Roles, Table, incorrect, kinds, optimizer, passed

SAFE = SafetyCheck(tool="memcheck", verdict="held", detail="on w")


def at_sizes(mean, **gains):
    """A modelled evaluation with a gain of its own at each size."""
    rows = tuple(
        WorkloadResult(
            uuid=name,
            axes={"n": 1},
            seed=1,
            accuracy=(),
            checked=True,
            timing=Modelled(baseline_us=gain, candidate_us=1.0, gain=gain, model_error=0.1),
        )
        for name, gain in gains.items()
    )
    return dataclasses.replace(passed(mean), workloads=rows, safety=(SAFE,))


def identity(text):
    return Candidate(sources={"k.cu": text}).id


MIXED = at_sizes(0.9, small=0.5, large=1.6)
LESS = at_sizes(0.95, small=0.75, large=1.2)


def test_where_none_is_faster_overall_the_one_that_gains_most_behind_a_condition_is_looked_at():
    events = []
    table = Table({"a": LESS, "b": MIXED, "c": passed(1.0)})
    history = optimizer(Roles(["a", "b", "c"]), table, events=events, budget=Budget(rounds=3)).run()
    assert history.finished.best is None
    (look,) = history.remeasured
    assert (look.candidate, look.holds) == (identity("b"), False)
    assert ahead_at_some_sizes(history) == look
    assert kinds(events)[-2:] == ["winner_remeasured", "run_finished"]
    assert "at 1 of 2 timed workloads: large (modelled)" in some_sizes_said(look)
    # the resumed run has the look in its log, and asks for none
    again = Table(table.answers)
    resumed = optimizer(Roles(["a", "b", "c"]), again, events=events[:-1], budget=Budget(rounds=3))
    assert resumed.run().remeasured == [look]
    assert again.asked == []


def test_where_one_is_faster_overall_no_other_is_looked_at():
    table = Table({"a": passed(1.5), "b": MIXED})
    history = optimizer(Roles(["a", "b"]), table, budget=Budget(rounds=2)).run()
    assert [r.candidate for r in history.remeasured] == [identity("a")]
    assert ahead_at_some_sizes(history) is None


def test_one_that_did_not_hold_overall_may_still_be_ahead_at_some_sizes():
    def lucky(workloads, seed):
        return at_sizes(1.5, small=1.2, large=1.9) if seed == 0 else MIXED

    history = optimizer(Roles(["a"]), Table({"a": lucky}), budget=Budget(rounds=1)).run()
    assert history.finished.best is None
    (look,) = history.remeasured
    assert not look.holds and ahead_at_some_sizes(history) == look


def test_what_the_second_look_refutes_or_does_not_find_is_not_ahead():
    luck = at_sizes(0.9, small=0.7, large=1.05)
    open_safety = dataclasses.replace(
        MIXED, safety=(SafetyCheck(tool="memcheck", verdict="not_established", detail="?"),)
    )
    for second in (luck, incorrect("w"), open_safety):
        answer = lambda w, seed, second=second: MIXED if seed == 0 else second  # noqa: E731
        history = optimizer(Roles(["a"]), Table({"a": answer}), budget=Budget(rounds=1)).run()
        assert len(history.remeasured) == 1
        assert ahead_at_some_sizes(history) is None


def test_an_unfinished_run_tells_of_what_it_has():
    assert ahead_at_some_sizes(History.fold([])) is None
