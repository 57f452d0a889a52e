"""The comparison on small recorded numbers, whose answers were worked out by hand."""

import math

import ml_dtypes
import numpy as np
import pytest

from tests.simulator.validation.comparison import (
    Counted,
    Timed,
    decoded,
    median_absolute_error,
    pairs_of,
    rank,
    time_summary,
    worst_ulps,
)  # fmt: skip


def timed(name, us, modelled, held_out=False, spread=0.01, group="k"):
    return Timed(name, group, us, us - spread, us + spread, modelled, held_out)


def test_ulps_of_floats():
    one = np.array([1.0, -2.0], np.float32)
    assert worst_ulps(one, one.copy(), "f32") == 0
    assert worst_ulps(np.nextafter(one, np.float32(9)), one, "f32") == 1
    # Half a unit of 2 lies one step below it, in the lower binade.
    assert worst_ulps(np.nextafter(np.float32([2]), np.float32(0)), np.float32([2]), "f32") == 0.5
    tiny = np.array([2.0**-10], np.float16)
    assert worst_ulps(np.zeros(1, np.float16), tiny, "f16") == 1024
    assert worst_ulps(np.zeros(1, np.float16), tiny, "f16", floor=1.0) == 1


def test_a_nan_on_one_side_is_no_small_difference():
    nan, one = np.array([np.nan], np.float32), np.ones(1, np.float32)
    assert worst_ulps(nan, one, "f32") == math.inf
    assert worst_ulps(np.array([np.inf], np.float32), one, "f32") == math.inf
    other = np.array([0x7FC00001], np.uint32).view(np.float32)
    assert worst_ulps(nan, other, "f32") == 0


def test_integers_differ_by_steps():
    assert worst_ulps(np.array([3, 250], np.uint8), np.array([5, 1], np.uint8), "u8") == 249


def test_formats_that_numpy_lacks():
    every = np.arange(256, dtype=np.uint8)
    expected = every.view(ml_dtypes.float8_e4m3fn).astype(np.float64)
    np.testing.assert_array_equal(decoded(every, "e4m3"), expected)
    words = np.arange(0, 65536, 7, dtype=np.uint16)
    finite = words[np.isfinite(words.view(ml_dtypes.bfloat16).astype(np.float32))]
    np.testing.assert_array_equal(
        decoded(finite, "bf16"), finite.view(ml_dtypes.bfloat16).astype(np.float64)
    )


@pytest.mark.parametrize(
    ("simulated", "measured", "within"),
    [(102, 100, True), (97, 100, False), (0, 0, True), (1, 0, False)],
)
def test_a_counter_has_a_limit(simulated, measured, within):
    assert Counted("sectors", simulated, measured, 0.02).within == within


def test_kendall_with_and_without_ties():
    points = [timed("a", 1, 10), timed("b", 2, 30), timed("c", 3, 20), timed("d", 4, 40)]
    ranking = rank(pairs_of(points)["k"], 0.0)
    assert ranking.tau == pytest.approx(4 / 6)  # one of six pairs is the wrong way round
    assert (ranking.pairs, ranking.right, ranking.wrong) == (6, 5, 1)
    tied = [timed("a", 1, 10), timed("b", 2, 10), timed("c", 3, 30)]
    assert rank(pairs_of(tied)["k"], 0.0).tau == pytest.approx(2 / math.sqrt(2 * 3))
    assert rank([], 0.0).tau is None


def test_pairs_that_were_not_told_apart_are_left_out_and_small_gains_decide_nothing():
    a, b = timed("a", 1.0, 5, spread=0.6), timed("b", 2.0, 9, spread=0.6)
    assert rank([(a, b)], 0.0).pairs == 0
    assert rank([(a, b)], 0.0).tau == 1.0
    assert rank([(a, b)], 0.0).tau_apart is None
    c, d = timed("c", 1.0, 1.0), timed("d", 2.0, 1.05)
    assert rank([(c, d)], 0.1).within_error == 1
    assert rank([(c, d)], 0.1).share_right is None
    assert rank([(c, d)], 0.01).share_right == 1.0


def test_what_is_held_out_is_reported_apart():
    points = [
        timed("a", 1, 1.1),
        timed("b", 2, 2.6, held_out=True),
        timed("c", 4, 4.0),
        timed("d", 9, 3, group="o"),
    ]
    summary = time_summary(points, 0.05)
    assert [summary[part]["points"] for part in ("all", "held_out", "rest")] == [4, 1, 3]
    assert [summary[part]["pairs"] for part in ("all", "held_out", "rest")] == [3, 2, 1]
    assert summary["held_out"]["median_absolute_error"] == pytest.approx(0.3)
    assert median_absolute_error(points[:1]) == pytest.approx(0.1)
    assert set(summary["groups"]) == {"k"}
