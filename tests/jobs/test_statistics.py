"""Ratios and their intervals."""

import numpy as np
import pytest

from astra_kernels.jobs.statistics import geometric_mean, geometric_mean_of, ratio_of, spread


def rounds(ratio, noise, count=20, seed=0):
    random = np.random.default_rng(seed)
    return [(ratio * (1 + noise * random.standard_normal()), 1.0) for _ in range(count)]


def test_equal_rounds_have_no_width():
    ratio = ratio_of([[(2.0, 1.0)] * 10])
    assert (ratio.median, ratio.low, ratio.high) == (2, 2, 2)


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
    ratio = geometric_mean_of([[[(2.0, 1.0)] * 10], [[(1.0, 2.0)] * 10]])
    assert ratio.median == pytest.approx(1)
    assert geometric_mean([1.0, 4.0]) == pytest.approx(2)


def test_more_workloads_are_surer_together():
    one = geometric_mean_of([[rounds(1.2, 0.05, seed=1)]])
    many = geometric_mean_of([[rounds(1.2, 0.05, seed=s)] for s in range(12)])
    assert many.relative_width < one.relative_width


def test_spread_is_the_relative_interquartile_range():
    assert spread([1.0, 2.0, 3.0, 4.0, 5.0]) == pytest.approx(2 / 3)
