"""Writes of a call where it may not write: beyond a buffer's end, or to an input."""

from __future__ import annotations

import numpy as np

from astra_kernels.jobs.inputs import shape_of
from astra_kernels.jobs.judge import values_of
from astra_kernels.jobs.prepare import Prepared
from astra_kernels.jobs.spec import JobSpec, TensorSpec, WorkloadSpec
from astra_kernels.records.dtypes import dtype_bytes
from astra_kernels.records.evaluation import Evaluation, Incorrect, Unsafe


def damage(
    spec: JobSpec, prepared: Prepared, image: np.ndarray, result: np.ndarray
) -> Evaluation | None:
    """Compares the bytes before and after a call: guards between buffers, and inputs that are not in place."""
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
    in_place = {o.in_place_of for o in spec.outputs}
    for tensor in spec.inputs:
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
