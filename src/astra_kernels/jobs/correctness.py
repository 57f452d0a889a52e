"""The correctness gate: a program alone in a child, its outputs judged here."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from astra_kernels.devices.device import CallReport, Launch
from astra_kernels.jobs.claims import call_report
from astra_kernels.jobs.consistency import Again, Observed, called_again, compare, further_calls
from astra_kernels.jobs.damage import damage
from astra_kernels.jobs.entry import WORKSPACE
from astra_kernels.jobs.inputs import shape_of
from astra_kernels.jobs.judge import Comparison, Yardstick, judge, values_of
from astra_kernels.jobs.layout import produces
from astra_kernels.jobs.memory import mapped
from astra_kernels.jobs.prepare import Bench, Prepared
from astra_kernels.jobs.spec import TensorSpec, WorkloadSpec
from astra_kernels.jobs.supervise import Ending, Setting, run_child
from astra_kernels.jobs.wire import Event, Program, Request, Tampered
from astra_kernels.records.dtypes import dtype_bytes
from astra_kernels.records.evaluation import (
    Crashed,
    Evaluation,
    Incorrect,
    OutputAccuracy,
    Rejected,
    TimedOut,
    Unsafe,
)

_TROUBLE = "batch invariance or repeatability is not established: a further call failed"
_NO_KERNEL = "the call launched no kernel; device code, not the host, has to do the work"
Accuracies = tuple[OutputAccuracy, ...]


@dataclass(frozen=True, kw_only=True)
class Subject:
    """A built program and what it is held to."""

    program: Program
    cuda_runtime: str
    source_root: str
    """Where the sources lay when they were compiled; line information names files below it."""
    baseline: Mapping[str, Accuracies] | None
    """The baseline's errors by workload; None when the program is judged alone."""


@dataclass
class Checked:
    """Workloads that a program got right, by uuid."""

    accuracy: dict[str, Accuracies] = field(default_factory=dict)
    digests: dict[str, bytes] = field(default_factory=dict)
    """Of everything after the call but the workspace."""
    launches: dict[str, tuple[Launch, ...]] = field(default_factory=dict)
    """What the simulated device recorded; empty on real ones."""
    facts: dict[str, Any] = field(default_factory=dict)
    notes: dict[str, None] = field(default_factory=dict)
    """What is suspicious about the calls, each once."""
    oracle: str = ""
    sandbox: str = ""
    observed: Observed = field(default_factory=Observed)
    failed: dict[str, Evaluation] = field(default_factory=dict)
    """Workloads that it got wrong, where the check does not stop at the first."""
    stopped_at: str = ""
    """The workload of the call that ended the check."""


@dataclass(frozen=True, kw_only=True)
class Manner:
    """How a set of workloads is checked."""

    deadline_s: float
    """Of one child."""
    again: frozenset[str] = frozenset()
    """Workloads to call again once all are right."""
    to_the_end: bool = False
    """Whether wrong outputs are noted in `failed`, and the check goes on."""


def check(
    bench: Bench,
    subject: Subject,
    workloads: Sequence[WorkloadSpec],
    deadline_s: float | None = None,
) -> tuple[Checked, Evaluation | None]:
    """Runs `subject` on every workload; stops at the first that fails, or after `deadline_s` (`limits.correctness_s`).

    Raises:
        UserError: inputs or oracle cannot be made.
        MachineFault: the machine failed.
    """
    checked = Checked()
    manner = Manner(
        deadline_s=deadline_s or bench.spec.limits.correctness_s,
        again=called_again(bench, workloads),
    )
    for batch in bench.batches(workloads):
        failure = check_batch(bench, subject, batch, (checked, manner))
        if failure is not None:
            return checked, failure
    return checked, None


def check_batch(
    bench: Bench,
    subject: Subject,
    batch: Sequence[WorkloadSpec],
    into: tuple[Checked, Manner],
) -> Evaluation | None:
    """Runs `subject` on workloads that fit in memory together, in one child; what is found goes `into` the first.

    Raises:
        UserError: inputs or oracle cannot be made.
        MachineFault: the machine failed.
    """
    checked, manner = into
    checked.stopped_at = ""
    prepared = [bench.prepared(w) for w in batch]
    further = further_calls(bench, prepared, manner.again)
    calls = [*prepared, *(again.prepared for again in further)]
    results = [p.new_result() for p in calls]
    try:
        listener = _Listener(bench, subject, into, (prepared, further, results))
        request = Request(
            task="check",
            device=bench.spec.device,
            cuda_runtime=subject.cuda_runtime,
            programs=(subject.program,),
            calls=tuple(p.call((fd,)) for p, fd in zip(calls, results, strict=True)),
        )
        with bench.device_in_use():
            finished = run_child(request, Setting(manner.deadline_s), listener.heard)
    finally:
        for descriptor in results:
            os.close(descriptor)
        for again in further:
            again.prepared.close()
    checked.sandbox = finished.sandbox
    if listener.verdict is not None:
        return listener.verdict
    if finished.ending is not None:
        return listener.ended(finished.ending)
    missing = [w.uuid for w in batch if w.uuid not in checked.accuracy | checked.failed]
    if missing and not listener.stopped:
        detail = "the process ended without a result"
        return Crashed(device="", stage="correctness", detail=detail, workload=missing[0])
    return None


class _Listener:
    """Judges the calls of one child as they are finished: first every workload once, then the further calls."""

    def __init__(
        self,
        bench: Bench,
        subject: Subject,
        into: tuple[Checked, Manner],
        calls: tuple[list[Prepared], list[Again], list[int]],
    ) -> None:
        self._bench, self._subject = bench, subject
        self._checked, self._manner = into
        self._prepared, self._further, self._results = calls
        self._places = {p.workload.uuid: index for index, p in enumerate(self._prepared)}
        self.verdict: Evaluation | None = None
        self.stopped = False

    def heard(self, event: Event, arrived: float) -> bool:
        """Takes in one event; False ends the child."""
        del arrived
        if event.kind == "ready":
            self._checked.facts = event.data
        if event.kind == "failed":
            self.verdict = Rejected(device="", rule="load", detail=event.detail)
        if event.kind == "done":
            report = call_report(event.data)
            if event.index < len(self._prepared):
                self._first_call(event.index, report)
            else:
                self._further_call(event.index, report)
        return self.verdict is None and not self.stopped

    def _first_call(self, index: int, report: CallReport) -> None:
        prepared = self._prepared[index]
        answer = self._results[index], report
        verdict = _verdict(self._bench, self._subject, prepared, answer, self._checked)
        if verdict is None or not self._manner.to_the_end:
            self.verdict, self._checked.stopped_at = verdict, prepared.workload.uuid
            return
        self._checked.accuracy.pop(prepared.workload.uuid, None)
        self._checked.failed[prepared.workload.uuid] = verdict
        self.stopped = report.fault is not None  # such a child makes no further call

    def _further_call(self, index: int, report: CallReport) -> None:
        again = self._further[index - len(self._prepared)]
        uuid = again.first.workload.uuid
        if uuid not in self._checked.accuracy:
            return
        failure = _fault(report, uuid)
        if failure is None:
            before = mapped(self._results[self._places[uuid]])
            compare(
                self._bench, again, before, mapped(self._results[index]), self._checked.observed
            )
        elif again.smaller or self._manner.to_the_end:
            self._checked.observed.troubles.append(_TROUBLE)
            self.stopped = report.fault is not None
        else:
            self.verdict, self._checked.stopped_at = failure, uuid

    def ended(self, ending: Ending) -> Evaluation | None:
        """The outcome of a child that did not finish; None where that counts for nobody."""
        index = ending.index - len(self._prepared)
        uuid: str | None = None
        if 0 <= ending.index < len(self._prepared):
            uuid = self._prepared[ending.index].workload.uuid
        elif 0 <= index < len(self._further):
            again = self._further[index]
            uuid = again.first.workload.uuid
            if ending.kind != "tampered" and (again.smaller or self._manner.to_the_end):
                self._checked.observed.troubles.append(_TROUBLE)
                return None
        self._checked.stopped_at = uuid or ""
        return _ended(ending, uuid, self._manner.deadline_s)


def _ended(ending: Ending, workload: str | None, limit_s: float) -> Evaluation:
    if ending.kind == "tampered":
        return Rejected(device="", rule="tampered", detail=ending.detail)
    if ending.kind == "timed_out":
        return TimedOut(
            device="", stage="correctness", limit_s=limit_s, detail=ending.detail, workload=workload
        )
    return Crashed(device="", stage="correctness", detail=ending.detail, workload=workload)


def _verdict(
    bench: Bench,
    subject: Subject,
    prepared: Prepared,
    answer: tuple[int, CallReport],
    checked: Checked,
) -> Evaluation | None:
    """Judges one finished call; None when it is right."""
    result_fd, report = answer
    uuid = prepared.workload.uuid
    failure = failure_of(report, uuid, subject.source_root)
    if failure is not None:
        return failure
    if bench.simulated and not report.launches and produces(bench.spec, prepared.workload):
        return Rejected(device="", rule="no_kernel", detail=f"{uuid}: {_NO_KERNEL}")
    if prepared.checked and any(x.sampled_blocks is not None for x in report.launches):
        raise Tampered("a sample of blocks was reported for a call that ran in full")
    checked.launches[uuid] = tuple(_named(x, subject.source_root) for x in report.launches)
    checked.notes.update(dict.fromkeys(report.notes))
    if not prepared.checked:
        checked.accuracy[uuid] = ()
        return None
    result = mapped(result_fd)
    accuracy, failure = judge_result(bench, prepared, result, subject.baseline)
    if not bench.simulated:
        checked.digests[uuid] = quick_digest(prepared, result)
    checked.oracle = bench.expected(prepared).oracle
    checked.accuracy[uuid] = accuracy
    return failure


def _named(launch: Launch, source_root: str) -> Launch:
    """The launch with its lines named by their sources, not by where those lay when they were compiled."""
    lines = tuple(replace(at, file=_source_name(at.file, source_root)) for at in launch.lines)
    return replace(launch, lines=lines)


def _source_name(file: str, source_root: str) -> str:
    """A candidate's own file by its path among the sources, any other by its last part."""
    path = Path(file)
    inside = source_root and path.is_relative_to(source_root)
    return str(path.relative_to(source_root)) if inside else path.name


def failure_of(report: CallReport, uuid: str, source_root: str) -> Evaluation | None:
    """What a report says went wrong, with the place in the candidate's own sources; None when nothing did."""
    failure = _fault(report, uuid)
    if source_root and isinstance(failure, Rejected | Crashed | Unsafe):
        failure = replace(failure, detail=failure.detail.replace(f"{source_root}/", ""))
    if isinstance(failure, Unsafe) and failure.file is not None:
        return replace(failure, file=_source_name(failure.file, source_root))
    return failure


def _fault(report: CallReport, uuid: str) -> Evaluation | None:
    fault, code = report.fault, report.code
    if fault is None:
        if code == 0:
            return None
        detail = f"the entry point returned {code}; 0 is success, other values are a cudaError_t"
        if report.message:
            detail = f"the operator failed: {report.message}"
        return Crashed(device="", stage="correctness", detail=detail, workload=uuid)
    if fault.kind == "error":
        return Crashed(device="", stage="correctness", detail=fault.message, workload=uuid)
    if fault.kind in ("not_simulated", "device_to_host", "stream"):
        return Rejected(device="", rule=fault.kind, detail=fault.message)
    if fault.kind == "step_limit":
        return TimedOut(
            device="", stage="correctness", limit_s=0, detail=fault.message, workload=uuid
        )
    return Unsafe(
        device="",
        kind=fault.kind,
        kernel=fault.kernel,
        detail=fault.message,
        block=fault.block,
        thread=fault.thread,
        file=fault.file,
        line=fault.line,
        workload=uuid,
    )


def quick_digest(prepared: Prepared, result: np.ndarray) -> bytes:
    """A digest of the bytes after a call, scratch workspace left out."""
    digest = hashlib.blake2b()
    for buffer in prepared.layout.buffers:
        if buffer.name != WORKSPACE:
            digest.update(result[buffer.offset : buffer.offset + buffer.size].data)
    return digest.digest()


def judge_result(
    bench: Bench,
    prepared: Prepared,
    result: np.ndarray,
    baseline: Mapping[str, Accuracies] | None,
) -> tuple[Accuracies, Evaluation | None]:
    """Judges the bytes after a call: guards, inputs, then every output."""
    failure = damage(bench.spec, prepared, mapped(prepared.image_fd), result)
    if failure is not None:
        return (), failure
    expected = bench.expected(prepared)
    known = None if baseline is None or not expected.precise else baseline[prepared.workload.uuid]
    found: list[OutputAccuracy] = []
    for output in bench.spec.outputs:
        buffer = prepared.layout.carrier(output)
        shape = shape_of(output, prepared.workload.axes)
        got = values_of(result[buffer.offset : buffer.offset + buffer.size], output, shape)
        own = next((a for a in known or () if a.output == output.name), None)
        yardstick = Yardstick(own, prepared.workload.tolerance)
        comparison = judge(output, got, expected.outputs[output.name], yardstick)
        found.append(comparison.accuracy)
        if comparison.broken_rule is not None:
            rule = comparison.broken_rule + _unwritten(prepared, output, comparison, result)
            return tuple(found), _incorrect(prepared, comparison, rule)
    return tuple(found), None


def _incorrect(prepared: Prepared, comparison: Comparison, rule: str) -> Incorrect:
    return Incorrect(
        device="",
        workload=prepared.workload.uuid,
        axes=dict(prepared.workload.axes),
        output=comparison.accuracy.output,
        index=comparison.index,
        expected=comparison.expected,
        got=comparison.got,
        rule=rule,
        mismatches=comparison.accuracy.mismatches,
        elements=comparison.accuracy.elements,
    )


def _unwritten(
    prepared: Prepared, output: TensorSpec, comparison: Comparison, result: np.ndarray
) -> str:
    """Says so when elements still hold the random bytes that were there before the call."""
    if output.in_place_of is not None:
        return ""
    buffer = prepared.layout.carrier(output)
    span = slice(buffer.offset, buffer.offset + buffer.size)
    width = dtype_bytes(output.dtype)
    image = mapped(prepared.image_fd)
    untouched = (image[span] == result[span]).reshape(-1, width).all(axis=1)
    count = int(np.count_nonzero(untouched))
    by_chance = 8 * comparison.accuracy.elements / 256**width
    if count <= by_chance + 1:
        return ""
    return f"; {count} of {comparison.accuracy.elements} elements were never written"
