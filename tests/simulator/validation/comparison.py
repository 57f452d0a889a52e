"""How far the simulator is from what was measured: pure functions of recorded numbers."""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

# Bits of the fraction, bits of the exponent's bias, and the unsigned type of a float's bits.
_FORMATS = {"f64": (52, 1023), "f32": (23, 127), "f16": (10, 15), "bf16": (7, 127), "e4m3": (3, 7)}


# ---- outputs -------------------------------------------------------------------------------------


def decoded(values: np.ndarray, dtype: str) -> np.ndarray:
    """Stored values as float64; NaNs and infinities stay."""
    if dtype == "bf16":
        return (values.astype(np.uint32) << np.uint32(16)).view(np.float32).astype(np.float64)
    if dtype == "e4m3":
        bits = values.astype(np.int64)
        exponent, fraction = bits >> 3 & 15, bits & 7
        size = np.where(
            exponent == 0, fraction / 8 * 2.0**-6, (1 + fraction / 8) * 2.0 ** (exponent - 7.0)
        )
        size = np.where(bits & 127 == 127, np.nan, size)
        return np.where(bits & 128, -size, size)
    return values.astype(np.float64)


def worst_ulps(got: np.ndarray, measured: np.ndarray, dtype: str, floor: float = 0.0) -> float:
    """The largest difference in units of the last place of the measured value.

    Integers differ by steps. A NaN or infinity only on one side is an infinite difference.

    Args:
        got: what the simulator has, as it is stored.
        measured: what the hardware has.
        dtype: of both, a key of `point.STORED`.
        floor: units are never smaller than those of this value.
    """
    if np.array_equal(got.view(np.uint8), measured.view(np.uint8)):
        return 0.0
    if dtype not in _FORMATS:
        return float(np.max(np.abs(got.astype(np.float64) - measured.astype(np.float64))))
    ours, theirs = decoded(got, dtype), decoded(measured, dtype)
    same = (ours == theirs) | (np.isnan(ours) & np.isnan(theirs))
    finite = np.isfinite(ours) & np.isfinite(theirs)
    if not np.all(same | finite):
        return math.inf
    fraction, bias = _FORMATS[dtype]
    size = np.maximum(np.abs(np.where(finite, theirs, 1.0)), max(floor, 2.0 ** (1 - bias)))
    unit = 2.0 ** (np.floor(np.log2(size)) - fraction)
    return float(np.max(np.where(same, 0.0, np.abs(ours - theirs) / unit)))


# ---- counters ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Counted:
    """One counter of one kernel."""

    metric: str
    simulated: float
    measured: float
    limit: float
    """The relative difference that is aimed at."""

    @property
    def error(self) -> float:
        """Relative to the measured value; 0 where both are 0."""
        if self.measured == 0:
            return 0.0 if self.simulated == 0 else math.inf
        return self.simulated / self.measured - 1

    @property
    def within(self) -> bool:
        """Whether it is as near as it is meant to be."""
        allowed = self.limit * abs(self.measured)
        return abs(self.simulated - self.measured) <= allowed * (1 + 1e-9)


# ---- times ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Timed:
    """A point: what was measured, with its interval, and what is modelled, in microseconds."""

    name: str
    group: str
    us: float
    low_us: float
    high_us: float
    modelled_us: float
    held_out: bool

    @property
    def error(self) -> float:
        """log(modelled / measured)."""
        return math.log(self.modelled_us / self.us)


@dataclass(frozen=True)
class Ranking:
    """How pairs of variants of a kernel are ordered.

    Attributes:
        tau: Kendall's tau-b over all pairs; None where all are ties.
        tau_apart: The same over those whose measured intervals do not overlap.
        pairs: those whose measured intervals do not overlap.
        right: of these, ordered as measured, by more than the model's stated error.
        wrong: of these, ordered the other way, by more than the model's stated error.
        within_error: of these, the modelled times differ by no more than the stated error.
    """

    tau: float | None
    tau_apart: float | None
    pairs: int
    right: int
    wrong: int
    within_error: int

    @property
    def share_right(self) -> float | None:
        """Of the pairs that the model decides."""
        decided = self.right + self.wrong
        return self.right / decided if decided else None


Pair = tuple[Timed, Timed]


def pairs_of(points: Iterable[Timed]) -> dict[str, list[Pair]]:
    """All pairs within a group."""
    groups: dict[str, list[Timed]] = {}
    for point in points:
        groups.setdefault(point.group, []).append(point)
    return {group: list(itertools.combinations(members, 2)) for group, members in groups.items()}


def rank(pairs: Sequence[Pair], stated_error: float) -> Ranking:
    """Compares the orders of pairs.

    Args:
        pairs: points of the same group.
        stated_error: relative error of a modelled gain; smaller gains decide nothing.
    """
    counts = {"right": 0, "wrong": 0, "within_error": 0}
    apart = [(a, b) for a, b in pairs if a.low_us > b.high_us or b.low_us > a.high_us]
    for a, b in apart:
        gain = math.log(b.modelled_us / a.modelled_us)
        agrees = gain * (b.us - a.us) > 0
        small = abs(gain) <= math.log1p(stated_error)
        counts["within_error" if small else "right" if agrees else "wrong"] += 1
    return Ranking(_tau(pairs), _tau(apart), len(apart), **counts)


def _tau(pairs: Sequence[Pair]) -> float | None:
    """Kendall's tau-b: concordant less discordant pairs, over the geometric mean of those without ties."""
    ours = [_sign(a.modelled_us - b.modelled_us) for a, b in pairs]
    theirs = [_sign(a.us - b.us) for a, b in pairs]
    untied = math.sqrt(sum(map(abs, ours)) * sum(map(abs, theirs)))
    return sum(x * y for x, y in zip(ours, theirs, strict=True)) / untied if untied else None


def _sign(value: float) -> int:
    return (value > 0) - (value < 0)


def _gain_error(pairs: Sequence[Pair]) -> float | None:
    """Root mean square of log(modelled / measured gain) of one variant over another."""
    if not pairs:
        return None
    return math.sqrt(statistics.fmean((a.error - b.error) ** 2 for a, b in pairs))


def median_absolute_error(points: Sequence[Timed]) -> float:
    """Of modelled over measured times, as a relative error."""
    return math.expm1(statistics.median(abs(point.error) for point in points))


def time_summary(points: Sequence[Timed], stated_error: float) -> Mapping[str, object]:
    """What is said of all points, of those held out, and of the rest.

    A pair counts as held out when one of its points is.
    """
    groups = pairs_of(points)
    pairs = [pair for members in groups.values() for pair in members]
    by_part = {
        "all": (list(points), pairs),
        "held_out": (
            [p for p in points if p.held_out],
            [(a, b) for a, b in pairs if a.held_out or b.held_out],
        ),
        "rest": (
            [p for p in points if not p.held_out],
            [(a, b) for a, b in pairs if not (a.held_out or b.held_out)],
        ),
    }
    summary: dict[str, object] = {}
    for part, (members, compared) in by_part.items():
        ranking = rank(compared, stated_error)
        summary[part] = {
            "points": len(members),
            "median_absolute_error": median_absolute_error(members) if members else None,
            "tau": ranking.tau,
            "tau_apart": ranking.tau_apart,
            "pairs": ranking.pairs,
            "right": ranking.right,
            "wrong": ranking.wrong,
            "within_error": ranking.within_error,
            "share_right": ranking.share_right,
            "gain_root_mean_square": _gain_error(compared),
        }
    summary["groups"] = {
        group: rank(members, stated_error).tau for group, members in groups.items() if members
    }
    return summary
