"""Ratios and their intervals."""

import numpy as np
import pytest

from astra_kernels.jobs.statistics import (
    BETWEEN_PROCESSES,
    geometric_mean,
    geometric_mean_of,
    ratio_of,
    spread,
)


def rounds(ratio, noise, count=20, seed=0):
    random = np.random.default_rng(seed)
    return [(ratio * (1 + noise * random.standard_normal()), 1.0) for _ in range(count)]


def test_equal_rounds_are_as_wide_as_processes_differ():
    one, four = (ratio_of([[(2.0, 1.0)] * 10] * n) for n in (1, 4))
    assert one.median == four.median == 2
    assert one.relative_width == pytest.approx(1.96 * BETWEEN_PROCESSES, rel=0.1)
    assert four.relative_width == pytest.approx(one.relative_width / 2, rel=0.1)


@pytest.mark.parametrize("processes", [1, 2, 3])
def test_the_interval_covers_the_truth_when_processes_differ(processes):
    """Each process is off by a draw of its own, as allocations make it; rounds add their noise."""
    random = np.random.default_rng(processes)
    covered = 0
    for seed in range(200):
        offsets = np.exp(BETWEEN_PROCESSES * random.standard_normal(processes))
        ratio = ratio_of([rounds(o, 0.004, seed=100 * seed + k) for k, o in enumerate(offsets)])
        covered += ratio.low <= 1 <= ratio.high
    assert covered >= 180


def test_weights_pull_the_mean():
    fast, slow = [[(2.0, 1.0)] * 10], [[(1.0, 1.0)] * 10]
    assert geometric_mean_of([fast, slow], [3.0, 1.0]).median == pytest.approx(2**0.75)
    assert geometric_mean([2.0, 1.0], [3.0, 1.0]) == pytest.approx(2**0.75)


def test_the_interval_covers_the_truth_about_as_often_as_it_says():
    covered = 0
    for seed in range(200):
        ratio = ratio_of([rounds(1.3, 0.02, seed=seed)])
        covered += ratio.low <= 1.3 <= ratio.high
    assert 180 <= covered <= 200


def test_processes_that_disagree_widen_the_interval():
    same = ratio_of([rounds(1.0, 0.001, seed=1), rounds(1.0, 0.001, seed=2)])
    apart = ratio_of([rounds(1.0, 0.001, seed=1), rounds(1.1, 0.001, seed=2)])
    assert apart.relative_width > 10 * same.relative_width


def test_processes_may_have_different_numbers_of_rounds():
    ratio = ratio_of([rounds(1.0, 0.01, 5), rounds(1.0, 0.01, 50)])
    assert ratio.low < 1 < ratio.high


def test_geometric_mean_over_workloads():
    ratio = geometric_mean_of([[[(2.0, 1.0)] * 10], [[(1.0, 2.0)] * 10]], [1, 1])
    assert ratio.median == pytest.approx(1)
    assert geometric_mean([1.0, 4.0]) == pytest.approx(2)


def test_more_workloads_are_surer_together():
    one = geometric_mean_of([[rounds(1.2, 0.05, seed=1)]], [1])
    many = geometric_mean_of([[rounds(1.2, 0.05, seed=s)] for s in range(12)], [1] * 12)
    assert many.relative_width < one.relative_width


def test_spread_is_the_relative_interquartile_range():
    assert spread([1.0, 2.0, 3.0, 4.0, 5.0]) == pytest.approx(2 / 3)
