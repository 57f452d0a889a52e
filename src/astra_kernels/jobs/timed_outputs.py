"""The outputs of timed calls, judged: a call that was timed has to be right as well."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from astra_kernels.jobs.claims import call_report
from astra_kernels.jobs.correctness import Accuracies, judge_result, quick_digest
from astra_kernels.jobs.inputs import Inputs, shape_of
from astra_kernels.jobs.judge import values_of
from astra_kernels.jobs.memory import mapped, sealed_image
from astra_kernels.jobs.perturb import flip_image, turned
from astra_kernels.jobs.prepare import Bench, Prepared
from astra_kernels.jobs.supervise import Setting, run_child
from astra_kernels.jobs.wire import Event, Program, Request, Turn
from astra_kernels.records.evaluation import Evaluation, Incorrect, Unsafe


@dataclass(frozen=True)
class TimedCall:
    """One call whose outputs are looked at: what it found, and where the bytes after it are."""

    turn: Turn
    result_fd: int


@dataclass(frozen=True, kw_only=True)
class BaselineAgain:
    """The baseline's program, to be called on the very inputs of a timed call."""

    program: Program
    cuda_runtime: str
    deadline_s: float

    def errors(self, bench: Bench, found: Prepared) -> Accuracies | None:
        """Its errors, from a process of its own; None where it does not finish, or is wrong itself."""
        result_fd = found.new_result()
        try:
            request = Request(
                task="check",
                device=bench.spec.device,
                cuda_runtime=self.cuda_runtime,
                programs=(self.program,),
                calls=(found.call((result_fd,)),),
            )
            done: list[bool] = []

            def heard(event: Event, arrived: float) -> bool:
                del arrived
                if event.kind == "done":
                    report = call_report(event.data)
                    done.append(report.fault is None and not report.code)
                return event.kind != "failed"

            run_child(request, Setting(self.deadline_s), heard)
            if done != [True]:
                return None
            errors, wrong = judge_result(bench, found, mapped(result_fd), None)
            return errors if wrong is None else None
        finally:
            os.close(result_fd)


def verify_timed(
    bench: Bench,
    prepared: Prepared,
    call: TimedCall,
    known: tuple[Mapping[str, Accuracies], Mapping[str, bytes]],
    baseline: BaselineAgain,
) -> Evaluation | None:
    """Judges the outputs of a timed call of the candidate; None when they are right.

    Args:
        bench: the job's workloads and oracle.
        prepared: the workload.
        call: the candidate's call.
        known: the baseline's errors, and digests of right results on the unturned inputs, by workload.
        baseline: asked only where the outputs are further off than on the unturned inputs: on these very signs sums may
            cancel, and then the baseline's error on them is the measure.
    """
    errors, digests = known
    uuid = prepared.workload.uuid
    unturned = not any(b.flips for b in prepared.layout.buffers)
    if unturned and quick_digest(prepared, mapped(call.result_fd)) == digests.get(uuid):
        return None
    found = _found(bench, prepared, call.turn)
    try:
        failure = _judged(bench, found, call, errors[uuid])
        if isinstance(failure, Incorrect):
            here = baseline.errors(bench, found)
            if here is not None:
                failure = _judged(bench, found, call, _larger(errors[uuid], here))
    finally:
        bench.forget(found.workload)
        os.close(found.image_fd)
    if isinstance(failure, Incorrect):
        rule = f"{failure.rule} (outputs of a timed call)"
        return replace(failure, workload=uuid, rule=rule)
    return replace(failure, workload=uuid) if isinstance(failure, Unsafe) else failure


def _judged(bench: Bench, found: Prepared, call: TimedCall, known: Accuracies) -> Evaluation | None:
    return judge_result(bench, found, mapped(call.result_fd), {found.workload.uuid: known})[1]


def _found(bench: Bench, prepared: Prepared, turn: Turn) -> Prepared:
    """The workload as the timed call found it."""
    image = mapped(prepared.image_fd)
    layout = prepared.layout
    spans = [(slice(b.offset, b.offset + b.size), b.flips) for b in layout.buffers]
    flips = flip_image(image.size, spans)
    before = turned(image, flips, turn.key, turn.index * (image.size // 8))
    inputs: Inputs = dict(prepared.inputs)
    for tensor in bench.spec.inputs:
        if tensor.shape is not None:
            buffer = layout.buffer(tensor.name)
            raw = before[buffer.offset : buffer.offset + buffer.size]
            shape = shape_of(tensor, prepared.workload.axes)
            inputs[tensor.name] = values_of(raw, tensor, shape)
    name = f"{prepared.workload.uuid} {turn.key:x} {turn.index}"
    return replace(
        prepared,
        workload=replace(prepared.workload, uuid=name),
        inputs=inputs,
        image_fd=sealed_image("timed", image.size, partial(np.copyto, src=before)),
    )


def _larger(first: Accuracies, second: Accuracies) -> Accuracies:
    """The larger errors of two judgements of the baseline."""
    other = {a.output: a for a in second}
    return tuple(
        replace(
            a,
            max_ulp=max(a.max_ulp, other[a.output].max_ulp),
            rms_ulp=max(a.rms_ulp, other[a.output].rms_ulp),
            mismatches=max(a.mismatches, other[a.output].mismatches),
        )
        for a in first
        if a.output in other
    )
