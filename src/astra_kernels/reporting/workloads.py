"""Workloads of the second look, one row each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from astra_kernels.records.evaluation import Measured, Modelled, Passed, Timing, WorkloadResult

TimeKind = Literal["measured", "modelled", "none"]


@dataclass(frozen=True, kw_only=True)
class WorkloadFact:
    """One timed workload, or the geometric mean of them."""

    name: str
    axes: Mapping[str, int]
    kind: TimeKind
    baseline_us: float
    candidate_us: float
    ratio: float
    low: float
    """Lower end of the 95 % interval (measured), or of the model's stated error (modelled)."""
    high: float
    warm: str
    """Ratio with the data in L2; empty where there is none."""
    accuracy: tuple[tuple[str, float, float | None], ...]
    """Output, the candidate's largest error and the baseline's, in ulp of the output's type."""
    minimum_bytes: int

    @property
    def verdict(self) -> str:
        """`faster`, `slower`, or `even` where the interval holds 1."""
        return "faster" if self.low > 1 else "slower" if self.high < 1 else "even"

    @property
    def interval(self) -> str:
        """The ratio with its interval; a modelled one with the model's error."""
        return f"{self.ratio:.3f} [{self.low:.3f}, {self.high:.3f}]"


def workload_facts(judged: Passed | None) -> tuple[WorkloadFact, ...]:
    """The timed workloads, and their geometric mean as the last row."""
    if judged is None:
        return ()
    rows = [
        _row(w.uuid, w.timing, w.warm, w)
        for w in judged.workloads
        if isinstance(w.timing, Measured | Modelled)
    ]
    if isinstance(judged.geomean, Measured | Modelled):
        rows.append(_row("geometric mean", judged.geomean, judged.warm_geomean, None))
    return tuple(rows)


def spread(timing: Measured | Modelled) -> tuple[float, float, float]:
    """A ratio with its lower and upper end."""
    if isinstance(timing, Measured):
        return timing.ratio, timing.ratio_low, timing.ratio_high
    return (
        timing.gain,
        timing.gain / (1 + timing.model_error),
        timing.gain * (1 + timing.model_error),
    )


def _row(
    name: str, timing: Measured | Modelled, warm: Timing | None, workload: WorkloadResult | None
) -> WorkloadFact:
    ratio, low, high = spread(timing)
    return WorkloadFact(
        name=name,
        axes=workload.axes if workload else {},
        kind=timing.kind,
        baseline_us=timing.baseline_us,
        candidate_us=timing.candidate_us,
        ratio=ratio,
        low=low,
        high=high,
        warm=f"{spread(warm)[0]:.3f}" if isinstance(warm, Measured | Modelled) else "",
        accuracy=_accuracy(workload) if workload else (),
        minimum_bytes=workload.minimum_bytes if workload else 0,
    )


def _accuracy(workload: WorkloadResult) -> tuple[tuple[str, float, float | None], ...]:
    before = {a.output: a.max_ulp for a in workload.baseline_accuracy}
    return tuple((a.output, a.max_ulp, before.get(a.output)) for a in workload.accuracy)
