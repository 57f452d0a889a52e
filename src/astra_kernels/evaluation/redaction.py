"""What a search may know of hidden workloads: their kinds, and whether they passed."""

from __future__ import annotations

from dataclasses import replace

from astra_kernels.jobs.consistency import DISAGREE
from astra_kernels.records.evaluation import (
    Crashed,
    DroppedWorkload,
    Evaluation,
    Incorrect,
    Passed,
    Quarantined,
    Rejected,
    TimedOut,
    Unsafe,
    WorkloadResult,
)

_WORKLOAD = "hidden"
_FAILED = "fails on a hidden workload of this kind; sizes, values and places are not told"


def redacted(evaluation: Evaluation) -> Evaluation:
    """The evaluation as agents and the log of a search get it.

    Of a hidden workload stay its kind and the outcome: records are made anew from what may be known, so that a field
    that is added later stays out until somebody puts it in. Findings and consistency name a hidden workload by its kind
    where they are made.
    """
    if isinstance(evaluation, Passed):
        return replace(
            evaluation,
            hidden_seed=None,
            workloads=tuple(_row(w) if w.hidden else w for w in evaluation.workloads),
            dropped=tuple(_dropped(d) for d in evaluation.dropped),
        )
    if not evaluation.hidden:
        return replace(evaluation, hidden_seed=None)
    return _failure(evaluation)


def _row(row: WorkloadResult) -> WorkloadResult:
    return WorkloadResult(
        uuid=_WORKLOAD, axes={}, seed=0, accuracy=(), hidden=True, kind=row.kind, checked=True
    )


def _dropped(dropped: DroppedWorkload) -> DroppedWorkload:
    return DroppedWorkload(uuid=_WORKLOAD, kind=dropped.kind, reason="")


def _failure(evaluation: Evaluation) -> Evaluation:
    device, kind = evaluation.device, evaluation.hidden
    words = f"{kind}: {_FAILED}"
    if isinstance(evaluation, Incorrect) and DISAGREE in evaluation.rule:
        words = f"{kind}: {DISAGREE}"
    common = {
        "wall_s": evaluation.wall_s,
        "sandbox": evaluation.sandbox,
        "environment": evaluation.environment,
    }
    made: Evaluation
    match evaluation:
        case Incorrect():
            made = Incorrect(
                device=device,
                workload=_WORKLOAD,
                axes={},
                output="",
                index=(),
                expected="",
                got="",
                rule=words,
                mismatches=0,
                elements=0,
            )
        case Unsafe():
            made = Unsafe(
                device=device, kind=evaluation.kind, kernel="", detail=words, workload=_WORKLOAD
            )
        case TimedOut():
            limit_s, stage = evaluation.limit_s, evaluation.stage
            made = TimedOut(
                device=device, stage=stage, limit_s=limit_s, detail=words, workload=_WORKLOAD
            )
        case Rejected():
            made = Rejected(device=device, rule=evaluation.rule, detail=words)
        case Quarantined():
            made = Quarantined(device=device, reason=words, workload=_WORKLOAD)
        case _:
            made = Crashed(device=device, stage="correctness", detail=words, workload=_WORKLOAD)
    return replace(made, hidden=kind, **common)  # type: ignore[arg-type]
