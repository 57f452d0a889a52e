"""Where a candidate is faster than the baseline: over all timed workloads, or at some of them by themselves.

What is faster at some only is no replacement of the baseline, but it may stand in front of it, behind a condition on the
sizes; calls that it does not win run the baseline as before.
"""

from __future__ import annotations

import math
from statistics import NormalDist

from astra_kernels.records.evaluation import (
    Evaluation,
    Measured,
    Modelled,
    Passed,
    Timing,
    WorkloadResult,
)


def is_win(timing: Timing | None) -> bool:
    """Whether the interval lies wholly above 1 (measured), or the gain beyond the model's stated error (modelled)."""
    match timing:
        case Measured(ratio_low=low):
            return low > 1.0
        case Modelled(gain=modelled, model_error=error):
            return modelled > 1.0 + error
    return False


def beats_baseline(evaluation: Evaluation | None) -> bool:
    """Whether the geometric mean over all timed workloads is a win."""
    return isinstance(evaluation, Passed) and is_win(evaluation.geomean)


def timed_workloads(evaluation: Passed) -> tuple[WorkloadResult, ...]:
    """The workloads that count for time and whose outputs were checked."""
    return tuple(
        w for w in evaluation.workloads if w.timing is not None and not w.hidden and w.checked
    )


def won_workloads(evaluation: Evaluation | None) -> tuple[WorkloadResult, ...]:
    """The workloads that are a win by themselves."""
    if not isinstance(evaluation, Passed):
        return ()
    return tuple(w for w in timed_workloads(evaluation) if is_win(w.timing))


def stands_out(timing: Timing | None, among: int) -> bool:
    """Whether a win would be one as well with the interval wide enough for `among` workloads looked at together.

    Of twenty even workloads one is a win by chance at 95 % each. Bonferroni's correction, on the interval's own width
    and as if the logarithm of the ratio were normal, keeps the chance of any at that of one. The model's error is
    none of chance, and stays.
    """
    if not isinstance(timing, Measured):
        return is_win(timing)
    quantile = NormalDist().inv_cdf
    wider = quantile(1 - 0.025 / max(among, 1)) / quantile(0.975)
    return math.log(timing.ratio) > wider * math.log(timing.ratio / timing.ratio_low)


def guarded_gain(evaluation: Evaluation | None) -> float:
    """Baseline time over the time of both together: the candidate where it wins, the baseline elsewhere.

    The geometric mean over the timed workloads, the cost of choosing left out; 1 where nothing is won.
    """
    if not isinstance(evaluation, Passed) or not (timed := timed_workloads(evaluation)):
        return 1.0
    logs = [math.log(_ratio(w.timing)) for w in timed if is_win(w.timing)]
    return math.exp(sum(logs) / len(timed))


def _ratio(timing: Timing | None) -> float:
    match timing:
        case Measured(ratio=ratio):
            return ratio
        case Modelled(gain=modelled):
            return modelled
    return 1.0
