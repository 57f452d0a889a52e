"""The memory roofline of a task: an empty launch, and its bytes at the rate of a copy."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from astra_kernels.records.evaluation import Evaluation, Measured, Modelled, Passed


@dataclass(frozen=True, kw_only=True)
class Ceiling:
    """What the device allows; both numbers were measured on it while the run's jobs ran."""

    copy_gb_s: float
    """Rate at which a copy moves bytes, read plus written, 10^9 bytes a second."""
    launch_us: float
    """Time of an empty kernel."""

    def rate_gb_s(self, minimum_bytes: float) -> float:
        """The highest rate that a task of so many bytes can reach: S. Williams et al., CACM 52(4), 2009, with a launch."""
        return minimum_bytes / (self.launch_us * 1e3 + minimum_bytes / self.copy_gb_s)


@dataclass(frozen=True, kw_only=True)
class Point:
    """One workload under one candidate."""

    workload: str
    minimum_bytes: int
    rate_gb_s: float
    us: float


def ceiling_of(evaluation: Evaluation | None) -> Ceiling | None:
    """The ceiling that was measured with an evaluation; None on a simulated device, which has measured nothing."""
    facts = evaluation.environment if evaluation else {}
    try:
        copy, launch = float(facts["device_copy_gb_s"]), float(facts["device_launch_floor_us"])
    except (KeyError, ValueError):
        return None
    return Ceiling(copy_gb_s=copy, launch_us=launch) if copy > 0 and launch >= 0 else None


def points(evaluation: Evaluation | None, *, baseline: bool = False) -> tuple[Point, ...]:
    """Attained rates of a candidate, or of the baseline that was timed beside it."""
    return tuple(_points(evaluation, baseline)) if isinstance(evaluation, Passed) else ()


def _points(evaluation: Passed, baseline: bool) -> Iterator[Point]:
    for workload in evaluation.workloads:
        timing = workload.timing
        if workload.minimum_bytes and isinstance(timing, Measured | Modelled):
            us = timing.baseline_us if baseline else timing.candidate_us
            rate = workload.minimum_bytes / us / 1e3
            yield Point(
                workload=workload.uuid, minimum_bytes=workload.minimum_bytes, rate_gb_s=rate, us=us
            )
