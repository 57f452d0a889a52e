"""What a native fault says: where it was, and what was wrong there, in words."""

from __future__ import annotations

from pathlib import Path

from astra_kernels.simulator.executor_interface import Executor, LaunchResult, NativeFault
from astra_kernels.simulator.geometry import Geometry, Shape
from astra_kernels.simulator.module import PreparedKernel
from astra_kernels.simulator.records import Fault, FaultKind, OtherSide, SourceLine

_KINDS = list(FaultKind)
_EARLY = {FaultKind.EARLY_READ: "read", FaultKind.EARLY_WRITE: "write"}
_IN_SHARED = (
    FaultKind.SHARED_BOUNDS,
    FaultKind.SHARED_MISALIGNED,
    FaultKind.SHARED_RACE,
    FaultKind.SHARED_UNWRITTEN,
    FaultKind.COPY_UNDER_WAY,
)
_IN_LOCAL = (FaultKind.LOCAL_BOUNDS, FaultKind.LOCAL_MISALIGNED, FaultKind.LOCAL_UNWRITTEN)
_UNWRITTEN = (
    FaultKind.SHARED_UNWRITTEN,
    FaultKind.GLOBAL_UNWRITTEN,
    FaultKind.LOCAL_UNWRITTEN,
)
_NOTHING_AT = -1


def describe_fault(
    executor: Executor, kernel: PreparedKernel, geometry: Geometry, result: LaunchResult
) -> Fault | None:
    """The fault of a launch, None when there was none."""
    native = result.fault
    if native.kind == 0:
        return None
    kind = _KINDS[native.kind - 1]
    line, text = _instruction(kernel, native.instruction)
    other = _other_side(kernel, geometry, native)
    explanation = _explain(executor, kind, native, geometry, kernel)
    if kind is FaultKind.ASSERTION:
        explanation = result.message.decode("utf-8", "replace")
    return Fault(
        kind=kind,
        kernel=kernel.lowered.name,
        block=_place(native.block, geometry.grid),
        thread=_place(native.thread, geometry.block),
        address=native.address,
        size=native.bytes,
        line=line,
        detail=f"{explanation} at `{text}`{_beside(kind, other)}",
        other=other,
    )


def _place(index: int, shape: Shape) -> Shape:
    return (index % shape[0], index // shape[0] % shape[1], index // (shape[0] * shape[1]))


def _instruction(kernel: PreparedKernel, index: int) -> tuple[SourceLine | None, str]:
    instruction = kernel.lowered.microcode.operations[index].instruction
    if instruction is None:
        return None, "the end of the kernel"
    return instruction.line, instruction.text


def _other_side(
    kernel: PreparedKernel, geometry: Geometry, native: NativeFault
) -> OtherSide | None:
    if native.other_instruction == _NOTHING_AT:
        return None
    line, text = _instruction(kernel, native.other_instruction)
    return OtherSide(
        block=_place(native.other_block, geometry.grid),
        thread=_place(native.other_thread, geometry.block),
        line=line,
        instruction=text,
    )


def _beside(kind: FaultKind, other: OtherSide | None) -> str:
    """How the two sides of a fault belong together."""
    if other is None:
        return ""
    where = f" ({Path(other.line.file).name}:{other.line.line})" if other.line else ""
    who = f"block {other.block}, thread {other.thread}: `{other.instruction}`{where}"
    if kind is FaultKind.COPY_UNDER_WAY:
        return f", which is what a copy not waited for writes, by {who};"
    if kind is FaultKind.BARRIER_RACE:
        return f", and nothing orders it with what came to the phase before, {who};"
    if kind is FaultKind.DIVERGENT_BARRIER:
        return f", and another lane at another one, {who};"
    return f", and nothing orders it with {who};"


def _explain(
    executor: Executor,
    kind: FaultKind,
    native: NativeFault,
    geometry: Geometry,
    kernel: PreparedKernel,
) -> str:
    access = f"{native.bytes} bytes"
    if kind in _UNWRITTEN:
        access = f"read of {access} that nobody wrote,"
    if kind in _EARLY:
        return (
            f"{_EARLY[kind]} before griddepcontrol.wait: {access} {_relative(executor, native.address)}, "
            "while the kernel before it in the stream may still run,"
        )
    if kind in _IN_SHARED:
        size = kernel.lowered.frame.shared_bytes + geometry.dynamic_shared_bytes
        return f"{access} at offset {native.address} of {size} bytes of shared memory"
    if kind in _IN_LOCAL:
        size = kernel.lowered.frame.local_bytes
        return f"{access} at offset {native.address} of {size} bytes of local memory"
    if kind is FaultKind.SYNC_MASK and native.bytes:
        return f"only the lanes {native.address:#010x} of a warp are at an instruction of all {native.bytes}"
    if kind is FaultKind.BARRIER_OPERAND:
        return _barrier_operand(native.address, native.bytes)
    words = {
        FaultKind.STEP_LIMIT: f"the block did not end within {native.address:,} instructions of its warps",
        FaultKind.DEADLOCK: "threads wait for others that will never come",
        FaultKind.SYNC_MASK: f"a lane that the mask {native.address:#010x} does not name",
        FaultKind.TRAP: "the kernel stopped itself",
        FaultKind.ABSENT_LANE: f"a value from lane {native.address}, which does not take part,",
        FaultKind.DIVERGENT_BARRIER: "lanes of a warp at different barriers:",
        FaultKind.BARRIER_RACE: "only chance decides in which phase of the barrier a warp takes part",
    }
    return words.get(kind) or f"{access} {_relative(executor, native.address)}"


def _barrier_operand(value: int, what: int) -> str:
    """`what` as in `executor/block.cpp`: the barrier's number, its threads, or how many others said."""
    if what == 0:
        return f"there is no barrier {value}: a block has those from 0 to 15,"
    if what == 1:
        return f"a barrier of {value} threads, which must be a multiple of a warp's 32,"
    return f"a barrier of {value} threads, where others of the same phase say {what},"


def _relative(executor: Executor, address: int) -> str:
    nearest = executor.nearest(address)
    if nearest is None:
        return f"at {address:#x}, and nothing is allocated"
    start, size, name = nearest
    if address < start:
        return f"starting {start - address} bytes before '{name}' ({size} bytes)"
    if address < start + size:
        return f"at offset {address - start} of '{name}' ({size} bytes)"
    return f"starting {address - start - size} bytes after the end of '{name}' ({size} bytes)"
