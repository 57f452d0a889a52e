"""Where the tensors of one call lie in its image, and the arguments that refer to them.

Every buffer starts at a multiple of 256 bytes and is followed by at least 256 bytes of guard. Whatever is
no input is filled with random bytes that only the supervisor knows: an element that still holds them after
the call was never written, a guard that does not was overrun.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from astra_kernels.errors import UserError
from astra_kernels.jobs.entry import MESSAGE, WORKSPACE, WORKSPACE_BYTES, c_arguments
from astra_kernels.jobs.inputs import Inputs, shape_of
from astra_kernels.jobs.spec import ArgumentSpec, JobSpec, TensorSpec, WorkloadSpec
from astra_kernels.jobs.wire import Argument, Buffer
from astra_kernels.records.dtypes import dtype_bytes

ALIGNMENT = 256
_POISON_BYTES = 1 << 20


@dataclass(frozen=True)
class Layout:
    """Buffers and arguments of one workload."""

    buffers: tuple[Buffer, ...]
    arguments: tuple[Argument, ...]
    size: int

    def buffer(self, name: str) -> Buffer:
        """The buffer called `name`."""
        return next(b for b in self.buffers if b.name == name)

    def carrier(self, output: TensorSpec) -> Buffer:
        """The buffer in which `output` lies after the call."""
        return self.buffer(output.in_place_of or output.name)

    def guards(self) -> list[tuple[str, slice]]:
        """The bytes after each buffer that nobody may write, with the buffer's name."""
        ends = [*(b.offset for b in self.buffers[1:]), self.size]
        return [
            (b.name, slice(b.offset + b.size, end))
            for b, end in zip(self.buffers, ends, strict=True)
        ]


def lay_out(
    spec: JobSpec,
    workload: WorkloadSpec,
    inputs: Inputs,
    *,
    inputs_only: bool = False,
    flips: Mapping[str, int] | None = None,
) -> Layout:
    """Places the buffers of `workload`.

    Args:
        spec: the job.
        workload: what to lay out.
        inputs: its inputs; arrays shorter than their tensors are stored once and repeated.
        inputs_only: True stores no initial bytes of outputs and workspace.
        flips: by tensor, the bits of its words that chance turns over before each timed call.

    Raises:
        UserError: an argument is neither tensor, scalar, axis, workspace nor stream.
    """
    sizes = buffer_sizes(spec, workload)
    buffers: list[Buffer] = []
    offset = 0
    for name, size in sizes.items():
        value = inputs.get(name)
        given = value.nbytes if isinstance(value, np.ndarray) else 0 if inputs_only else size
        turns = (flips or {}).get(name, 0)
        stored = min(size, given)
        buffers.append(Buffer(name=name, offset=offset, size=size, stored=stored, flips=turns))
        offset += (stored // ALIGNMENT + 2) * ALIGNMENT
    places = {name: index for index, name in enumerate(sizes)}
    arguments = tuple(_argument(a, places, workload, inputs) for a in c_arguments(spec))
    return Layout(tuple(buffers), arguments, offset)


def buffer_sizes(spec: JobSpec, workload: WorkloadSpec) -> Mapping[str, int]:
    """Bytes of every buffer: tensor inputs, outputs that have their own, the workspace."""
    tensors = [t for t in spec.inputs if t.shape is not None]
    tensors += [o for o in spec.outputs if o.in_place_of is None]
    sizes = {t.name: elements_of(t, workload.axes) * dtype_bytes(t.dtype) for t in tensors}
    if workload.workspace_bytes:
        sizes[WORKSPACE] = workload.workspace_bytes
    return sizes


def elements_of(tensor: TensorSpec, axes: Mapping[str, int]) -> int:
    """Number of elements of `tensor`."""
    count = 1
    for extent in shape_of(tensor, axes):
        count *= extent
    return count


def produces(spec: JobSpec, workload: WorkloadSpec) -> bool:
    """Whether a call has anything to write at all."""
    return any(elements_of(o, workload.axes) for o in spec.outputs)


def total_elements(spec: JobSpec, workload: WorkloadSpec) -> int:
    """Elements of all tensors of a workload."""
    tensors = [t for t in spec.inputs if t.shape is not None]
    tensors += [o for o in spec.outputs if o.in_place_of is None]
    return sum(elements_of(t, workload.axes) for t in tensors)


def fill_image(image: np.ndarray, *, layout: Layout, inputs: Inputs) -> None:
    """Writes the bytes before the call: inputs in place, random bytes everywhere else."""
    random = np.random.Generator(np.random.PCG64(secrets.randbits(128)))
    at = 0
    for buffer in layout.buffers:
        value = inputs.get(buffer.name)
        if isinstance(value, np.ndarray):
            _poison(image, random, at, buffer.offset)
            at = buffer.offset + buffer.stored
            image[buffer.offset : at] = value.reshape(-1).view(np.uint8)
    _poison(image, random, at, layout.size)


def _poison(image: np.ndarray, random: np.random.Generator, start: int, end: int) -> None:
    for at in range(start, end, _POISON_BYTES):
        size = min(_POISON_BYTES, end - at)
        words = random.integers(0, 2**64, -(-size // 8), dtype=np.uint64)
        image[at : at + size] = words.view(np.uint8)[:size]


def _argument(
    spec: ArgumentSpec, places: Mapping[str, int], workload: WorkloadSpec, inputs: Inputs
) -> Argument:
    if spec.ctype in ("stream", MESSAGE):
        return Argument(ctype=spec.ctype)
    if spec.ctype == "none":
        return Argument(ctype="pointer", value=0)
    if spec.value is not None and not isinstance(spec.value, str):
        return Argument(ctype=spec.ctype, value=spec.value)
    if spec.kind == WORKSPACE_BYTES:
        return Argument(ctype=spec.ctype, value=workload.workspace_bytes)
    if spec.ctype == "pointer":
        if spec.name in places:
            return Argument(ctype="pointer", buffer=places[spec.name])
        if spec.name == WORKSPACE:
            return Argument(ctype="pointer", value=0)
        raise UserError(f"argument {spec.name!r} is a pointer, but no tensor has this name")
    if spec.name in workload.axes:
        return Argument(ctype=spec.ctype, value=workload.axes[spec.name])
    value = inputs.get(spec.name)
    if value is None or isinstance(value, np.ndarray):
        raise UserError(f"argument {spec.name!r} is no scalar input and no axis")
    return Argument(ctype=spec.ctype, value=value)
