"""Where a candidate is ahead: over all workloads, at some of them, or nowhere that chance would not have it."""

import math
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st
from tests.records.test_confirmation import HELD, measured

from astra_kernels.records.confirmation import SecondLook, conclude, faster_somewhere
from astra_kernels.records.evaluation import Crashed, Modelled, Passed, WorkloadResult
from astra_kernels.records.wins import (
    beats_baseline,
    guarded_gain,
    is_win,
    stands_out,
    won_workloads,
)

RATIOS = st.lists(st.floats(0.2, 5.0), min_size=1, max_size=12)


def modelled(gain, error=0.1):
    return Modelled(baseline_us=gain, candidate_us=1.0, gain=gain, model_error=error)


def passed(timings, mean=None):
    rows = tuple(
        WorkloadResult(uuid=f"w{i}", axes={"n": i}, seed=1, accuracy=(), checked=True, timing=t)
        for i, t in enumerate(timings)
    )
    return Passed(device="d", workloads=rows, resources=(), safety=(HELD,), geomean=mean)


@given(RATIOS)
def test_behind_a_condition_a_candidate_is_at_least_even_and_at_least_what_it_is_alone(ratios):
    alone = math.exp(sum(map(math.log, ratios)) / len(ratios))
    gain = guarded_gain(passed([modelled(r, 0.0) for r in ratios]))
    assert gain >= 1.0
    assert gain >= alone * (1 - 1e-9)
    assert (gain > 1.0) == any(r > 1.0 for r in ratios)


@given(RATIOS, st.floats(0.0, 0.5))
def test_what_is_won_is_what_lies_beyond_the_models_error(ratios, error):
    won = won_workloads(passed([modelled(r, error) for r in ratios]))
    assert {w.uuid for w in won} == {f"w{i}" for i, r in enumerate(ratios) if r > 1 + error}


def test_hidden_and_unchecked_workloads_win_nothing():
    evaluation = passed([modelled(2.0), modelled(2.0), modelled(2.0)])
    first, second, third = evaluation.workloads
    rows = (replace(first, hidden=True), replace(second, checked=False), third)
    evaluation = replace(evaluation, workloads=rows)
    assert [w.uuid for w in won_workloads(evaluation)] == ["w2"]
    assert guarded_gain(evaluation) == 2.0


def test_what_did_not_pass_wins_nothing():
    crashed = Crashed(device="d", stage="time", detail="?")
    assert not won_workloads(crashed) and not beats_baseline(crashed)
    assert guarded_gain(crashed) == guarded_gain(None) == guarded_gain(passed([None])) == 1.0


@given(st.integers(1, 200), st.floats(1.001, 3.0), st.floats(1.0001, 1.5))
def test_the_more_are_looked_at_the_clearer_one_has_to_stand_out(among, ratio, width):
    timing = replace(measured(1.0, 1.0), ratio=ratio, ratio_low=ratio / width)
    assert stands_out(timing, 1) == is_win(timing)
    assert not stands_out(timing, among) or is_win(timing)
    assert not stands_out(timing, among + 1) or stands_out(timing, among)


def test_of_eight_looked_at_the_interval_is_that_of_two_point_seven_standard_errors():
    # 2.734 is the 99.6875 % quantile of the normal distribution, from tables; 1.96 that of 97.5 %
    width = math.exp(1.96 * 0.01)
    for errors, expected in ((2.72, False), (2.75, True)):
        ratio = math.exp(errors * 0.01)
        timing = replace(measured(1.0, 1.0), ratio=ratio, ratio_low=ratio / width)
        assert is_win(timing)
        assert stands_out(timing, 8) is expected


SLOWER = measured(0.94, 0.96)
EVEN = passed([], mean=measured(0.99, 1.01))


def look_at(*timings, control=EVEN):
    return SecondLook(evaluation=passed(timings, SLOWER), control=control)


def test_faster_at_some_sizes_is_a_claim_of_its_own():
    look = look_at(measured(0.7, 0.8), measured(1.5, 1.6), measured(1.7, 1.8))
    claim = faster_somewhere(look)
    assert claim.verdict == "held"
    assert "2 of 3" in claim.reason and "w1, w2" in claim.reason
    whole = conclude(look)
    assert whole.verdict == "refuted" and whole.claims["faster"].verdict == "failed"
    assert any("w1, w2" in fact for fact in whole.facts)


def test_it_is_not_established_by_one_narrow_win_of_many_nor_without_a_control():
    narrow = [measured(0.99, 1.01)] * 11 + [measured(1.0005, 1.02)]
    assert "by chance" in faster_somewhere(look_at(*narrow)).reason
    clear = [measured(0.99, 1.01)] * 11 + [measured(1.5, 1.52)]
    assert faster_somewhere(look_at(*clear)).verdict == "held"
    assert "no control" in faster_somewhere(look_at(*clear, control=None)).reason
    uneven = passed([], mean=measured(1.02, 1.04))
    for look in (look_at(*narrow), look_at(*clear, control=None), look_at(*clear, control=uneven)):
        assert faster_somewhere(look).verdict == "not established"


def test_it_fails_where_nothing_is_won_and_is_open_where_nothing_was_timed():
    assert faster_somewhere(look_at(measured(0.7, 0.8))).verdict == "failed"
    unreached = SecondLook(evaluation=Crashed(device="d", stage="time", detail="?"))
    assert faster_somewhere(unreached).verdict == "not established"
    look = SecondLook(evaluation=passed([modelled(2.0)], modelled(1.05)))
    assert faster_somewhere(look).verdict == "not established"
    assert faster_somewhere(look).reason.startswith("modelled only: at 1 of 1")
