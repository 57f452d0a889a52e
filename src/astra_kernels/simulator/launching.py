"""Carrying out one launch: parameters, blocks to run, counters, faults."""

from __future__ import annotations

import ctypes
import os
import random
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from astra_kernels.simulator.counting import Sampled, summarise
from astra_kernels.simulator.errors import SimulatorRefusal
from astra_kernels.simulator.executor_interface import (
    COUNTER_NAMES,
    Executor,
    LaunchRequest,
    LaunchResult,
    NativeFault,
)
from astra_kernels.simulator.lowering import fill_constants
from astra_kernels.simulator.module import PreparedKernel
from astra_kernels.simulator.records import (
    Fault,
    FaultKind,
    Launch,
    SimulatorOptions,
    SourceLine,
)

_KINDS = list(FaultKind)
_GLOBAL_KINDS = (FaultKind.GLOBAL_BOUNDS, FaultKind.GLOBAL_MISALIGNED)
_MOST_RESIDENT_BYTES = 2 << 30
_WORKSPACE_BYTES = 8  # its size and the barrier's counter: `grid_workspace` in driver_abi.h
_EARLY = {FaultKind.EARLY_READ: "read", FaultKind.EARLY_WRITE: "write"}
Shape = tuple[int, int, int]


@dataclass(frozen=True)
class Geometry:
    """What a launch asks for, next to its parameters.

    Attributes:
        grid: Blocks, (x, y, z).
        block: Threads of a block, (x, y, z).
        dynamic_shared_bytes: Shared memory beside what the kernel declares.
        cooperative: Whether its blocks run together and may wait for each other.
        programmatic: Whether the kernel may overlap the one before it in the stream.
        multiprocessors: The machine's.
        warps_per_multiprocessor: At most.
        reserved_shared_bytes: Of every block, for the system.
        number: Which launch of the process it is; uninitialised memory holds other bytes in each.
    """

    grid: Shape
    block: Shape
    dynamic_shared_bytes: int
    cooperative: bool = False
    programmatic: bool = False
    number: int = 0
    multiprocessors: int = 132
    warps_per_multiprocessor: int = 64
    reserved_shared_bytes: int = 1024

    @property
    def blocks(self) -> int:
        """Blocks in the grid."""
        return self.grid[0] * self.grid[1] * self.grid[2]

    @property
    def warps_per_block(self) -> int:
        """Warps of a block, the last one perhaps partly empty."""
        return -(-self.block[0] * self.block[1] * self.block[2] // 32)


def choose_blocks(blocks: int, options: SimulatorOptions) -> NDArray[np.uint64] | None:
    """The blocks of a sample, sorted; None for all of them."""
    wanted = options.block_sample
    if wanted is None or wanted >= blocks:
        return None
    # One block at random from each of as many equal stretches: kernels that give different blocks
    # different work mostly do so by regions of the grid.
    random_source = random.Random(options.seed)
    inner = max(0, min(wanted, blocks) - 2)
    edges = [1 + (blocks - 2) * step // inner for step in range(inner + 1)] if inner else []
    chosen = {0, blocks - 1}
    chosen.update(random_source.randrange(low, high) for low, high in pairwise(edges))
    return np.array(sorted(chosen), np.uint64)


def check_resident(kernel: PreparedKernel, geometry: Geometry) -> None:
    """Look whether the host can hold all blocks of a cooperative launch at once.

    Raises:
        SimulatorRefusal: They need more than 2 GiB.
    """
    frame, warps = kernel.lowered.frame, geometry.blocks * geometry.warps_per_block
    registers_and_local = warps * (kernel.encoded.warp_bytes + 32 * frame.local_bytes)
    shared = geometry.blocks * (frame.shared_bytes + geometry.dynamic_shared_bytes)
    total = registers_and_local + shared
    if geometry.cooperative and total > _MOST_RESIDENT_BYTES:
        reason = f"its {geometry.blocks} blocks hold {total >> 20} MiB at once"
        raise SimulatorRefusal(
            f"not simulated: a cooperative launch of {kernel.lowered.name}: {reason}"
        )


@contextmanager
def _workspace(executor: Executor, geometry: Geometry) -> Iterator[int]:
    """The address of a cooperative launch's workspace, zeroed; 0 for another launch, as on a GPU."""
    if not geometry.cooperative:
        yield 0
        return
    address = executor.allocate(_WORKSPACE_BYTES, "the grid's workspace", counted=False)
    try:
        yield address
    finally:
        executor.release(address)


def pack_parameters(kernel: PreparedKernel, arguments: ctypes.Array[ctypes.c_void_p]) -> bytes:
    """Copy a launch's arguments to where the kernel expects them."""
    frame = kernel.lowered.frame
    packed = bytearray(max(frame.parameter_bytes, 1))
    for index, (offset, size) in enumerate(frame.parameters.values()):
        address = arguments[index]
        if address and size:
            packed[offset : offset + size] = ctypes.string_at(address, size)
    return bytes(packed)


def run_launch(
    executor: Executor,
    kernel: PreparedKernel,
    geometry: Geometry,
    parameters: bytes,
    symbols: dict[str, int],
    options: SimulatorOptions,
) -> Launch:
    """Run a kernel to its end or its first fault."""
    started = time.perf_counter()
    ctypes.memmove(kernel.parameter_address, parameters, len(parameters))
    chosen = None if geometry.cooperative else choose_blocks(geometry.blocks, options)
    counters = np.zeros((len(kernel.encoded.code), len(COUNTER_NAMES)), np.uint64)
    with _workspace(executor, geometry) as workspace:
        values = _launch_values(kernel, geometry, workspace)
        constants = fill_constants(
            kernel.encoded, values, parameters, kernel.parameter_address, symbols
        )
        request = _request(kernel, geometry, constants, chosen, options)
        result = executor.launch(request, counters)
    executed = geometry.blocks if chosen is None else len(chosen)
    counted = options.counters and result.fault.kind == 0
    return Launch(
        kernel=kernel.lowered.name,
        grid=geometry.grid,
        block=geometry.block,
        static_shared_bytes=kernel.lowered.frame.shared_bytes,
        dynamic_shared_bytes=geometry.dynamic_shared_bytes,
        executed_blocks=executed,
        counters=(
            summarise(
                kernel.lowered,
                counters,
                result,
                Sampled(geometry.blocks, executed, geometry.warps_per_block),
            )
            if counted
            else None
        ),
        fault=_fault(executor, kernel, geometry, result),
        wall_seconds=time.perf_counter() - started,
    )


def _launch_values(kernel: PreparedKernel, geometry: Geometry, workspace: int) -> dict[str, int]:
    shared = kernel.lowered.frame.shared_bytes + geometry.dynamic_shared_bytes
    values = {
        "%envreg1": workspace >> 32,
        "%envreg2": workspace & 0xFFFFFFFF,
        "%gridid": geometry.number,
        "%nsmid": geometry.multiprocessors,
        "%nwarpid": geometry.warps_per_multiprocessor,
        "%dynamic_smem_size": geometry.dynamic_shared_bytes,
        "%total_smem_size": shared,
        "%aggr_smem_size": shared + geometry.reserved_shared_bytes,
    }
    for axis, letter in enumerate("xyz"):
        values[f"%ntid.{letter}"] = geometry.block[axis]
        values[f"%nctaid.{letter}"] = geometry.grid[axis]
    return values


def _request(
    kernel: PreparedKernel,
    geometry: Geometry,
    constants: NDArray[np.uint8],
    chosen: NDArray[np.uint64] | None,
    options: SimulatorOptions,
) -> LaunchRequest:
    frame = kernel.lowered.frame
    # Blocks in parallel would make sums of floats differ from run to run.
    threads = 1 if kernel.order_matters else options.threads or os.cpu_count() or 1
    return LaunchRequest(
        code=kernel.encoded.code.ctypes.data,
        instructions=len(kernel.encoded.code),
        constants=constants.ctypes.data,
        constant_bytes=len(constants),
        warp_bytes=kernel.encoded.warp_bytes,
        grid=geometry.grid,
        block=geometry.block,
        shared_bytes=frame.shared_bytes + geometry.dynamic_shared_bytes,
        local_bytes=frame.local_bytes,
        blocks=None if chosen is None else chosen.ctypes.data,
        block_count=0 if chosen is None else len(chosen),
        step_limit=options.step_limit,
        threads=threads,
        count=options.counters,
        cooperative=geometry.cooperative,
        programmatic=geometry.programmatic,
        seed=options.seed << 32 | geometry.number << 8,
        operand_lists=kernel.encoded.lists.ctypes.data,
    )


def _place(index: int, shape: Shape) -> Shape:
    return (index % shape[0], index // shape[0] % shape[1], index // (shape[0] * shape[1]))


def _fault(
    executor: Executor, kernel: PreparedKernel, geometry: Geometry, result: LaunchResult
) -> Fault | None:
    native = result.fault
    if native.kind == 0:
        return None
    kind = _KINDS[native.kind - 1]
    instruction = kernel.lowered.microcode.operations[native.instruction].instruction
    line: SourceLine | None = instruction.line if instruction else None
    text = instruction.text if instruction else "the end of the kernel"
    message = result.message.decode("utf-8", "replace")
    return Fault(
        kind=kind,
        kernel=kernel.lowered.name,
        block=_place(native.block, geometry.grid),
        thread=_place(native.thread, geometry.block),
        address=native.address,
        size=native.bytes,
        line=line,
        detail=f"{_explain(executor, kind, native, geometry, kernel, message)} at `{text}`",
    )


def _explain(
    executor: Executor,
    kind: FaultKind,
    native: NativeFault,
    geometry: Geometry,
    kernel: PreparedKernel,
    message: str,
) -> str:
    access = f"{native.bytes} bytes"
    if kind in _GLOBAL_KINDS:
        return f"{access} {_relative(executor, native.address)}"
    if kind in _EARLY:
        return (
            f"{_EARLY[kind]} before griddepcontrol.wait: {access} {_relative(executor, native.address)}, "
            "while the kernel before it in the stream may still run,"
        )
    if kind in (FaultKind.SHARED_BOUNDS, FaultKind.SHARED_MISALIGNED):
        size = kernel.lowered.frame.shared_bytes + geometry.dynamic_shared_bytes
        return f"{access} at offset {native.address} of {size} bytes of shared memory"
    if kind in (FaultKind.LOCAL_BOUNDS, FaultKind.LOCAL_MISALIGNED):
        size = kernel.lowered.frame.local_bytes
        return f"{access} at offset {native.address} of {size} bytes of local memory"
    if kind == FaultKind.ASSERTION:
        return message
    if kind == FaultKind.SYNC_MASK and native.bytes:
        return f"only the lanes {native.address:#010x} of a warp are at an instruction of all {native.bytes}"
    return {
        FaultKind.STEP_LIMIT: "the block did not end within the step limit",
        FaultKind.DEADLOCK: "threads wait for others that will never come",
        FaultKind.SYNC_MASK: f"a lane that the mask {native.address:#010x} does not name",
        FaultKind.TRAP: "the kernel stopped itself",
    }[kind]


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
