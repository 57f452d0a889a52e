"""The correctness gate: a program alone in a child, its outputs judged here."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from astra_kernels.devices.device import CallReport, Launch
from astra_kernels.jobs.claims import call_report
from astra_kernels.jobs.inputs import shape_of
from astra_kernels.jobs.judge import Comparison, Yardstick, judge, values_of
from astra_kernels.jobs.layout import WORKSPACE, produces
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


def check(
    bench: Bench, subject: Subject, workloads: Sequence[WorkloadSpec]
) -> tuple[Checked, Evaluation | None]:
    """Runs `subject` on every workload; stops at the first that fails.

    Raises:
        UserError: inputs or oracle cannot be made.
        MachineFault: the machine failed.
    """
    checked = Checked()
    for batch in bench.batches(workloads):
        failure = _check_batch(bench, subject, batch, checked)
        if failure is not None:
            return checked, failure
    return checked, None


def _check_batch(
    bench: Bench, subject: Subject, batch: Sequence[WorkloadSpec], checked: Checked
) -> Evaluation | None:
    prepared = [bench.prepared(w) for w in batch]
    results = [p.new_result() for p in prepared]
    request = Request(
        task="check",
        device=bench.spec.device,
        cuda_runtime=subject.cuda_runtime,
        programs=(subject.program,),
        calls=tuple(p.call((fd,)) for p, fd in zip(prepared, results, strict=True)),
    )
    verdicts: list[Evaluation] = []

    def heard(event: Event, arrived: float) -> bool:
        del arrived
        if event.kind == "ready":
            checked.facts = event.data
        if event.kind == "failed":
            verdicts.append(Rejected(device="", rule="load", detail=event.detail))
            return False
        if event.kind == "done":
            answer = results[event.index], call_report(event.data)
            verdict = _verdict(bench, subject, prepared[event.index], answer, checked)
            if verdict is not None:
                verdicts.append(verdict)
                return False
        return True

    try:
        with bench.device_in_use():
            finished = run_child(request, Setting(bench.spec.limits.correctness_s), heard)
    finally:
        for descriptor in results:
            os.close(descriptor)
    checked.sandbox = finished.sandbox
    if verdicts:
        return verdicts[0]
    if finished.ending is not None:
        return _ended(bench, finished.ending, batch)
    missing = [w.uuid for w in batch if w.uuid not in checked.accuracy]
    if missing:
        detail = "the process ended without a result"
        return Crashed(device="", stage="correctness", detail=detail, workload=missing[0])
    return None


def _ended(bench: Bench, ending: Ending, batch: Sequence[WorkloadSpec]) -> Evaluation:
    workload = batch[ending.index].uuid if 0 <= ending.index < len(batch) else None
    if ending.kind == "tampered":
        return Rejected(device="", rule="tampered", detail=ending.detail)
    if ending.kind == "timed_out":
        limit = bench.spec.limits.correctness_s
        return TimedOut(
            device="", stage="correctness", limit_s=limit, detail=ending.detail, workload=workload
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
    failure = _fault(report, uuid, bench.spec.limits.correctness_s)
    if isinstance(failure, Unsafe) and failure.file is not None:
        file = failure.file.removeprefix(subject.source_root).lstrip("/")
        failure = replace(failure, file=file)
    if failure is not None:
        return failure
    if bench.simulated and not report.launches and produces(bench.spec, prepared.workload):
        return Rejected(device="", rule="no_kernel", detail=f"{uuid}: {_NO_KERNEL}")
    if prepared.checked and any(x.sampled_blocks is not None for x in report.launches):
        raise Tampered("a sample of blocks was reported for a call that ran in full")
    checked.launches[uuid] = report.launches
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


def _fault(report: CallReport, uuid: str, limit_s: float) -> Evaluation | None:
    fault, code = report.fault, report.code
    if fault is None:
        if code == 0:
            return None
        detail = f"the entry point returned {code}; 0 is success, other values are a cudaError_t"
        return Crashed(device="", stage="correctness", detail=detail, workload=uuid)
    if fault.kind == "error":
        return Crashed(device="", stage="correctness", detail=fault.message, workload=uuid)
    if fault.kind in ("not_simulated", "device_to_host", "stream"):
        return Rejected(device="", rule=fault.kind, detail=fault.message)
    if fault.kind == "step_limit":
        return TimedOut(
            device="", stage="correctness", limit_s=limit_s, detail=fault.message, workload=uuid
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
    failure = _damage(bench, prepared, mapped(prepared.image_fd), result)
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


def _damage(
    bench: Bench, prepared: Prepared, image: np.ndarray, result: np.ndarray
) -> Evaluation | None:
    """Writes outside of the outputs: guards between buffers, and inputs that are not in place."""
    workload = prepared.workload
    for name, guard in prepared.layout.guards():
        if not np.array_equal(image[guard], result[guard]):
            after = int((image[guard] != result[guard]).argmax())
            return Unsafe(
                device="",
                kind="out_of_bounds",
                kernel="",
                detail=f"a write {after} bytes beyond the end of {name!r}",
                workload=workload.uuid,
            )
    in_place = {o.in_place_of for o in bench.spec.outputs}
    for tensor in bench.spec.inputs:
        if tensor.shape is None or tensor.name in in_place:
            continue
        buffer = prepared.layout.buffer(tensor.name)
        span = slice(buffer.offset, buffer.offset + buffer.size)
        if not np.array_equal(image[span], result[span]):
            return _overwritten(tensor, workload, image[span], result[span])
    return None


def _overwritten(
    tensor: TensorSpec, workload: WorkloadSpec, before: np.ndarray, after: np.ndarray
) -> Incorrect:
    shape = shape_of(tensor, workload.axes)
    old, new = values_of(before, tensor, shape), values_of(after, tensor, shape)
    width = dtype_bytes(tensor.dtype)
    changed = (before != after).reshape(-1, width).any(axis=1)
    place = int(changed.argmax())
    return Incorrect(
        device="",
        workload=workload.uuid,
        axes=dict(workload.axes),
        output=tensor.name,
        index=tuple(int(i) for i in np.unravel_index(place, shape)),
        expected=str(old.reshape(-1)[place]),
        got=str(new.reshape(-1)[place]),
        rule=f"the input {tensor.name!r} was overwritten; only outputs declared in place may be",
        mismatches=int(np.count_nonzero(changed)),
        elements=changed.size,
    )
