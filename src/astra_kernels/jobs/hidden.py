"""The hidden workloads of a job: which of them count, since the baseline gets them right, and the candidate's verdict."""

from __future__ import annotations

import statistics
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from astra_kernels.errors import UserError
from astra_kernels.jobs.consistency import Observed, called_again
from astra_kernels.jobs.correctness import (
    Accuracies,
    Checked,
    Manner,
    Subject,
    check,
    check_batch,
)
from astra_kernels.jobs.prepare import Bench
from astra_kernels.jobs.spec import WorkloadSpec
from astra_kernels.records.evaluation import (
    DroppedWorkload,
    Evaluation,
    OutputAccuracy,
    WorkloadResult,
)

_UNKNOWN = "not established which"
_MOST_RESTARTS = 8
"""Children that the baseline may bring down before the rest of the hidden workloads is dropped unseen."""


@dataclass
class Hidden:
    """What the hidden workloads showed."""

    rows: tuple[WorkloadResult, ...] = ()
    dropped: tuple[DroppedWorkload, ...] = ()
    observed: Observed = field(default_factory=Observed)
    baseline_observed: Observed = field(default_factory=Observed)
    kernels: frozenset[str] = frozenset()
    """What the candidate launched on a simulated device."""
    failure: Evaluation | None = None
    """The candidate's."""


def judge_hidden(
    bench: Bench,
    rivals: tuple[Subject, Subject | None],
    workloads: Sequence[WorkloadSpec],
    public: Mapping[str, Accuracies],
) -> Hidden:
    """Judges the hidden workloads.

    Args:
        bench: the job's inputs and oracle.
        rivals: the baseline, and the candidate unless the baseline itself is judged.
        workloads: the hidden ones.
        public: the baseline's errors on the other workloads.

    Raises:
        MachineFault: the machine failed.
    """
    baseline, candidate = rivals
    own, dropped = surviving(bench, baseline, workloads)
    found = Hidden(
        dropped=tuple(
            DroppedWorkload(uuid=w.uuid, kind=w.kind, reason=dropped[w.uuid])
            for w in workloads
            if w.uuid in dropped
        ),
        baseline_observed=own.observed,
    )
    left = [w for w in workloads if w.uuid not in dropped]
    checked = own
    if candidate is not None:
        held_to = {w.uuid: yardstick(own.accuracy[w.uuid], public) for w in left}
        checked, failure = check(
            bench, replace(candidate, baseline=held_to), left, bench.spec.limits.hidden_s
        )
        if failure is not None:
            kind = next((w.kind for w in left if w.uuid == checked.stopped_at), _UNKNOWN)
            found.failure = replace(failure, hidden=kind)
            return found
    found.observed = checked.observed
    found.kernels = frozenset(x.kernel for calls in checked.launches.values() for x in calls)
    found.rows = tuple(_row(w, checked, own) for w in left)
    return found


def surviving(
    bench: Bench, baseline: Subject, workloads: Sequence[WorkloadSpec]
) -> tuple[Checked, dict[str, str]]:
    """Runs the baseline on hidden workloads; gives what it got right, and why each other one is dropped, by uuid.

    Raises:
        MachineFault: the machine failed.
    """
    dropped: dict[str, str] = {}
    for workload in workloads:
        try:
            if bench.is_checked(workload):
                bench.expected(bench.prepared(workload))
            else:
                dropped[workload.uuid] = "too large to check on this device"
        except UserError as error:
            dropped[workload.uuid] = str(error)
    checked = Checked()
    until = time.monotonic() + bench.spec.limits.hidden_s
    in_order = sorted(workloads, key=lambda w: _roundness(bench, w), reverse=True)
    for _ in range(_MOST_RESTARTS):
        waiting = [w for w in in_order if w.uuid not in dropped | checked.accuracy]
        if not waiting:
            break
        again = called_again(bench, waiting)
        manner = Manner(deadline_s=bench.spec.limits.hidden_s, again=again, to_the_end=True)
        ended = check_batch(bench, baseline, waiting, (checked, manner))
        dropped |= {uuid: _words(failure) for uuid, failure in checked.failed.items()}
        if ended is not None:
            guilty = [checked.stopped_at] if checked.stopped_at else [w.uuid for w in waiting]
            dropped |= {uuid: _words(ended) for uuid in guilty}
        if time.monotonic() > until:
            break
    for workload in workloads:
        if workload.uuid not in checked.accuracy:
            dropped.setdefault(workload.uuid, "not tried: it failed on too many others before")
    _repeat(bench, baseline, [w for w in workloads if w.uuid not in dropped], checked)
    return checked, dropped


def _roundness(bench: Bench, workload: WorkloadSpec) -> int:
    """The largest power of two that divides every row; first come the sizes that the fewest kernels fail on."""
    rows = [
        workload.axes[t.shape[-1]] for t in (*bench.spec.inputs, *bench.spec.outputs) if t.shape
    ]
    return min((n & -n for n in rows), default=1)


def _repeat(
    bench: Bench, baseline: Subject, left: Sequence[WorkloadSpec], checked: Checked
) -> None:
    """Calls again what it got right, where what was chosen for that beforehand was dropped."""
    if left and not checked.observed.repeated:
        manner = Manner(
            deadline_s=bench.spec.limits.hidden_s, again=called_again(bench, left), to_the_end=True
        )
        chosen = [w for w in left if w.uuid in manner.again]
        once_more = Checked()
        check_batch(bench, baseline, chosen, (once_more, manner))
        checked.observed.take(once_more.observed)


def yardstick(own: Accuracies, public: Mapping[str, Accuracies]) -> Accuracies:
    """What a candidate's errors are held to: the baseline's, but no less than its median error on public workloads.

    A hidden workload may have one element only, on which the baseline was right by luck.
    """
    return tuple(_at_least(a, [p for row in public.values() for p in row]) for a in own)


def _at_least(own: OutputAccuracy, public: Sequence[OutputAccuracy]) -> OutputAccuracy:
    same = [p for p in public if p.output == own.output]
    if not same:
        return own
    return replace(
        own,
        max_ulp=max(own.max_ulp, statistics.median(p.max_ulp for p in same)),
        rms_ulp=max(own.rms_ulp, statistics.median(p.rms_ulp for p in same)),
    )


def _row(workload: WorkloadSpec, checked: Checked, baseline: Checked) -> WorkloadResult:
    return WorkloadResult(
        uuid=workload.uuid,
        axes=dict(workload.axes),
        seed=workload.seed,
        accuracy=checked.accuracy[workload.uuid],
        baseline_accuracy=baseline.accuracy[workload.uuid],
        hidden=True,
        kind=workload.kind,
    )


def _words(failure: Evaluation) -> str:
    reason = getattr(failure, "rule", "") or getattr(failure, "detail", "")
    return f"{failure.outcome.replace('_', ' ')}: {reason}"
