"""Ratios of interleaved rounds and how sure they are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

_RESAMPLES = 2000
_SEED = 20240229
_LOW, _HIGH = 2.5, 97.5
BETWEEN_PROCESSES = 0.001
"""Standard deviation that a process's median ratio is taken to have at least, however many rounds it runs: where
its allocations happen to lie moves a ratio by about that (docs/measurements.md), and two or three processes
are too few to show it."""

Rounds = Sequence[tuple[float, float]]
"""(baseline us, candidate us) per round of A B B A."""


@dataclass(frozen=True)
class Ratio:
    """Median ratio of baseline over candidate with its 95 % interval."""

    median: float
    low: float
    high: float

    @property
    def relative_width(self) -> float:
        """Half the interval's width over the median."""
        return (self.high - self.low) / 2 / self.median


def ratio_of(processes: Sequence[Rounds]) -> Ratio:
    """Median of the per-round ratios; the bootstrap resamples processes, then their rounds."""
    draws = median_draws(processes)
    low, high = np.percentile(draws, [_LOW, _HIGH])
    everything = np.concatenate([_ratios(rounds) for rounds in processes])
    return Ratio(float(np.median(everything)), float(low), float(high))


def geometric_mean_of(workloads: Sequence[Sequence[Rounds]], weights: Sequence[float]) -> Ratio:
    """Weighted geometric mean over workloads of their median ratios, the workloads themselves fixed."""
    shares = np.asarray(weights) / np.sum(weights)
    logs = np.zeros(_RESAMPLES)
    center = 0.0
    for number, (processes, share) in enumerate(zip(workloads, shares, strict=True)):
        logs += share * np.log(median_draws(processes, number))
        center += float(share * np.log(ratio_of(processes).median))
    low, high = np.exp(np.percentile(logs, [_LOW, _HIGH]))
    return Ratio(float(np.exp(center)), float(low), float(high))


def median_draws(processes: Sequence[Rounds], stream: int = 0) -> np.ndarray:
    """Bootstrap draws of the median ratio."""
    random = np.random.default_rng([_SEED, stream])
    ratios = [_ratios(rounds) for rounds in processes]
    longest = max(r.size for r in ratios)
    picks = random.integers(0, len(ratios), (_RESAMPLES, len(ratios)))
    sample = np.full((_RESAMPLES, len(ratios), longest), np.nan)
    for number, own in enumerate(ratios):
        rows, columns = np.nonzero(picks == number)
        chosen = own[random.integers(0, own.size, (rows.size, own.size))]
        sample[rows, columns, : own.size] = chosen
    medians = np.nanmedian(sample.reshape(_RESAMPLES, -1), axis=1)
    placement = random.normal(0, BETWEEN_PROCESSES / np.sqrt(len(ratios)), _RESAMPLES)
    return np.asarray(medians * np.exp(placement))


def spread(times: Sequence[float]) -> float:
    """Relative interquartile range."""
    quarter, half, three_quarters = np.percentile(np.asarray(times), [25, 50, 75])
    return float((three_quarters - quarter) / half)


def geometric_mean(values: Sequence[float], weights: Sequence[float] | None = None) -> float:
    """Geometric mean of positive numbers, weighted if asked."""
    return float(np.exp(np.average(np.log(np.asarray(values)), weights=weights)))


def _ratios(rounds: Rounds) -> np.ndarray:
    pairs = np.asarray(rounds, np.float64).reshape(-1, 2)
    return np.asarray(pairs[:, 0] / pairs[:, 1])
