"""The outputs of timed calls, judged: a call that was timed has to be right as well."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from astra_kernels.jobs.correctness import Accuracies, judge_result, quick_digest
from astra_kernels.jobs.inputs import Inputs, shape_of
from astra_kernels.jobs.judge import values_of
from astra_kernels.jobs.memory import mapped, sealed_image
from astra_kernels.jobs.perturb import flip_image, turned
from astra_kernels.jobs.prepare import Bench, Prepared
from astra_kernels.jobs.wire import Turn
from astra_kernels.records.evaluation import Evaluation, Incorrect, Unsafe


@dataclass(frozen=True)
class TimedCall:
    """One call whose outputs are looked at: what it found, and where the bytes after it are."""

    turn: Turn
    result_fd: int


def verify_timed(
    bench: Bench,
    prepared: Prepared,
    call: TimedCall,
    known: tuple[Mapping[str, Accuracies], Mapping[str, bytes]],
    rival: TimedCall | None = None,
) -> Evaluation | None:
    """Judges the outputs of a timed call of the candidate; None when they are right.

    Args:
        bench: the job's workloads and oracle.
        prepared: the workload.
        call: the candidate's call.
        known: the baseline's errors, and digests of right results on the unturned inputs, by workload.
        rival: a call of the baseline on inputs of the same kind, whose error counts as well.
    """
    errors, digests = known
    uuid = prepared.workload.uuid
    unturned = not any(b.flips for b in prepared.layout.buffers)
    if unturned and quick_digest(prepared, mapped(call.result_fd)) == digests.get(uuid):
        return None
    failure = _judged(bench, prepared, call, errors[uuid])[1]
    if isinstance(failure, Incorrect) and rival is not None:
        # On these very signs sums may cancel; then the baseline's error on such inputs is the measure.
        baseline, wrong = _judged(bench, prepared, rival, None)
        if wrong is None:
            failure = _judged(bench, prepared, call, _larger(errors[uuid], baseline))[1]
    if isinstance(failure, Incorrect):
        rule = f"{failure.rule} (outputs of a timed call)"
        return replace(failure, workload=uuid, rule=rule)
    return replace(failure, workload=uuid) if isinstance(failure, Unsafe) else failure


def _judged(
    bench: Bench, prepared: Prepared, call: TimedCall, baseline: Accuracies | None
) -> tuple[Accuracies, Evaluation | None]:
    found = _found(bench, prepared, call.turn)
    known = None if baseline is None else {found.workload.uuid: baseline}
    try:
        return judge_result(bench, found, mapped(call.result_fd), known)
    finally:
        bench.forget(found.workload)
        os.close(found.image_fd)


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
