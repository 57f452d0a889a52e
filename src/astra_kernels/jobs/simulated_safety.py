"""The safety gate on a simulated device: a program with all checks on, in more than one order of warps and blocks.

Outputs and workspace are not written before the call, so that reads of them are found; what comes out is judged
once more. A finding that the baseline shows as well is no fault of the candidate's.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace

import numpy as np

from astra_kernels.devices.device import UNCHECKED, CallReport
from astra_kernels.jobs.claims import call_report
from astra_kernels.jobs.correctness import Subject, failure_of, judge_result
from astra_kernels.jobs.layout import total_elements
from astra_kernels.jobs.memory import mapped
from astra_kernels.jobs.prepare import Bench, Prepared
from astra_kernels.jobs.sanitizer import Safety
from astra_kernels.jobs.spec import WorkloadSpec
from astra_kernels.jobs.supervise import Setting, run_child
from astra_kernels.jobs.wire import Call, Event, Request
from astra_kernels.records.evaluation import Evaluation, Incorrect, SafetyCheck, Unsafe

ORDERS = 2
"""Orders of warps and blocks in which every workload is examined, beside the natural one of the other gates."""
_MOST_ELEMENTS = 4_000_000
"""Of all examined workloads together: the checks take some seven times as long as a call without them."""
_LOOKED_FOR = (
    "races within and between blocks, reads of what nobody wrote, bounds, alignment, barriers, shuffles, "
    "asynchronous copies, the stream, memory before griddepcontrol.wait"
)


@dataclass
class _Found:
    """What the calls of one program brought up."""

    failure: Evaluation | None = None
    reason: str = ""
    """Why nothing is established; "" when it is."""
    reports: list[CallReport] = field(default_factory=list)


def examine_simulated(
    bench: Bench,
    subject: Subject,
    baseline: Callable[[], Subject | None],
    dropped: frozenset[str] = frozenset(),
) -> Safety:
    """Runs `subject` on workloads that are small enough, in several orders.

    Args:
        bench: The job's workloads.
        subject: The program under judgement.
        baseline: Gives the baseline, None when that is the subject; asked when there is a finding.
        dropped: Hidden workloads that count for nobody.

    Raises:
        MachineFault: the machine failed.
    """
    workloads = examined_workloads(bench, dropped)
    if not workloads:
        return _established(workloads, "every workload is too large to be checked")
    found = _run(bench, subject, workloads)
    if isinstance(found.failure, Incorrect):
        return Safety(failure=found.failure)
    if not isinstance(found.failure, Unsafe):
        return _established(workloads, found.reason)
    rival = baseline()
    known = found if rival is None else _run(bench, rival, workloads)
    if not isinstance(known.failure, Unsafe) or known.failure.kind != found.failure.kind:
        return Safety(failure=found.failure)
    whose = "the baseline" if rival is None else "the baseline too"
    safety = _established(workloads, f"{whose} has a finding that ends the examination")
    safety.findings.append(f"simulator, of {whose}: {_words(found.failure)}")
    return safety


def examined_workloads(bench: Bench, dropped: frozenset[str]) -> list[WorkloadSpec]:
    """The smallest workloads, at least one and as many as are quickly examined."""
    fit = [w for w in bench.spec.workloads if bench.is_checked(w) and w.uuid not in dropped]
    fit.sort(key=lambda w: total_elements(bench.spec, w))
    chosen: list[WorkloadSpec] = []
    elements = 0
    for workload in fit:
        elements += total_elements(bench.spec, workload)
        if chosen and elements > _MOST_ELEMENTS:
            break
        chosen.append(workload)
    return chosen


def _established(workloads: Sequence[WorkloadSpec], reason: str) -> Safety:
    names = ", ".join(w.uuid for w in workloads if not w.hidden)
    hidden = sum(w.hidden for w in workloads)
    names += f" and {hidden} hidden workloads" if hidden else ""
    held = f"{_LOOKED_FOR}; in {ORDERS} orders of warps and blocks on {names}"
    if reason:
        return Safety([SafetyCheck(tool="simulator", verdict="not_established", detail=reason)])
    return Safety([SafetyCheck(tool="simulator", verdict="held", detail=held)])


def _run(bench: Bench, subject: Subject, workloads: Sequence[WorkloadSpec]) -> _Found:
    """One child that makes all calls; stops at the first that fails."""
    found = _Found()
    with _calls(bench, workloads) as calls:

        def heard(event: Event, arrived: float) -> bool:
            del arrived
            if event.kind == "failed":
                found.reason = event.detail
            if event.kind == "done":
                prepared, call = calls[event.index]
                report = call_report(event.data)
                found.reports.append(report)
                result = mapped(call.result_fds[0])
                found.failure = _judged(bench, subject, prepared, (report, result))
            return found.failure is None and not found.reason

        request = Request(
            task="check",
            device=bench.spec.device,
            cuda_runtime=subject.cuda_runtime,
            programs=(subject.program,),
            calls=tuple(call for _, call in calls),
        )
        finished = run_child(request, Setting(bench.spec.limits.safety_s), heard)
    _conclude(found, len(calls), "" if finished.ending is None else finished.ending.detail)
    return found


def _conclude(found: _Found, calls: int, ended: str) -> None:
    if found.failure is not None or found.reason:
        if found.failure is not None and not isinstance(found.failure, Unsafe | Incorrect):
            found.reason = f"a checked call failed: {_words(found.failure)}"
        return
    if ended:
        found.reason = f"a checked call did not end well: {ended}"
    elif len(found.reports) < calls:
        found.reason = "the process ended before all checked calls were made"
    elif any(UNCHECKED in report.notes for report in found.reports):
        found.reason = UNCHECKED


def _judged(
    bench: Bench, subject: Subject, prepared: Prepared, answer: tuple[CallReport, np.ndarray]
) -> Evaluation | None:
    report, result = answer
    workload = prepared.workload
    failure = failure_of(report, workload.uuid, subject.source_root)
    held_to = subject.baseline
    if failure is None and (held_to is None or workload.uuid in held_to):
        _, failure = judge_result(bench, prepared, result, held_to)
    if failure is not None and workload.hidden:
        return replace(failure, hidden=workload.kind)
    return failure


@contextmanager
def _calls(
    bench: Bench, workloads: Sequence[WorkloadSpec]
) -> Iterator[list[tuple[Prepared, Call]]]:
    """Calls whose outputs and workspace are not written before, in fresh memory, order by order."""
    calls: list[tuple[Prepared, Call]] = []
    with ExitStack() as stack:
        for number in range(ORDERS):
            for workload in workloads:
                prepared = bench.again(bench.prepared(workload))
                stack.callback(prepared.close)
                result = prepared.new_result()
                stack.callback(os.close, result)
                buffers = tuple(
                    b
                    if isinstance(prepared.inputs.get(b.name), np.ndarray)
                    else replace(b, stored=0)
                    for b in prepared.layout.buffers
                )
                order = _order(workload.seed, number)
                call = replace(prepared.call((result,)), buffers=buffers, checked_order=order)
                calls.append((prepared, call))
        yield calls


def _order(seed: int, number: int) -> int:
    """An order that follows from the workload's seed and tells nothing of it; never 0."""
    digest = hashlib.blake2b(f"order {number} of {seed}".encode(), digest_size=7).digest()
    return int.from_bytes(digest) + 1


def _words(failure: Evaluation) -> str:
    detail = getattr(failure, "detail", "") or getattr(failure, "rule", "")
    file, line = getattr(failure, "file", None), getattr(failure, "line", None)
    return f"{detail} at {file}:{line}" if file else detail
