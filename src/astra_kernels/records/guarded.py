"""The candidate of a run that is no better kernel, but is worth a condition: faster at some sizes by themselves."""

from __future__ import annotations

from astra_kernels.records.confirmation import conclude, faster_somewhere
from astra_kernels.records.evaluation import Modelled, Passed, Timing
from astra_kernels.records.history import History
from astra_kernels.records.run import WinnerRemeasured
from astra_kernels.records.wins import guarded_gain, won_workloads


def ahead_at_some_sizes(history: History) -> WinnerRemeasured | None:
    """The second look at the candidate that gains most behind a condition on the sizes.

    It was correct and safe at the second look, and won some workloads there. None where the run has a best candidate,
    which is faster over all of them, or where there is no such candidate.
    """
    if history.finished is not None and history.finished.best is not None:
        return None
    return max(
        filter(_is_ahead, history.remeasured),
        key=lambda look: guarded_gain(look.evaluation),
        default=None,
    )


def _is_ahead(look: WinnerRemeasured) -> bool:
    return bool(won_workloads(look.evaluation)) and not _open(look)


def _open(look: WinnerRemeasured) -> list[str]:
    """What is not established of a candidate that won some workloads."""
    claims = conclude(look.look).claims
    needed = [claims["correct"], claims["safe"]]
    if not isinstance(_geomean(look), Modelled):
        needed.append(faster_somewhere(look.look))
    return [claim.reason for claim in needed if claim.verdict != "held"]


def why_none_is_ahead(history: History) -> str:
    """What keeps the candidates that won some workloads at their second look from use there; "" where none won any."""
    looks = [look for look in history.remeasured if won_workloads(look.evaluation)]
    return "; ".join(f"{look.candidate}: {', '.join(_open(look))}" for look in looks)


def some_sizes_said(look: WinnerRemeasured) -> str:
    """A sentence on a candidate that is ahead at some sizes."""
    somewhere = faster_somewhere(look.look).reason.removeprefix("modelled only: ")
    kind = "modelled" if isinstance(_geomean(look), Modelled) else "measured"
    return (
        f"{look.candidate} is faster {somewhere} ({kind}); with the baseline elsewhere {guarded_gain(look.evaluation):.3f}, "
        "over all: astra export puts it behind a condition on the sizes."
    )


def _geomean(look: WinnerRemeasured) -> Timing | None:
    return look.evaluation.geomean if isinstance(look.evaluation, Passed) else None
