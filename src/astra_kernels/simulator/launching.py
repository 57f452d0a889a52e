"""Carrying out one launch: parameters, blocks to run, counters, faults."""

from __future__ import annotations

import ctypes
import os
import random
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from astra_kernels.simulator.counting import Sampled, summarise
from astra_kernels.simulator.errors import SimulatorRefusal
from astra_kernels.simulator.executor_interface import (
    COUNTER_NAMES,
    Executor,
    LaunchRequest,
)
from astra_kernels.simulator.explaining import describe_fault
from astra_kernels.simulator.geometry import Geometry
from astra_kernels.simulator.lowering import fill_constants
from astra_kernels.simulator.module import PreparedKernel
from astra_kernels.simulator.records import Launch, SimulatorOptions

_MOST_RESIDENT_BYTES = 2 << 30
_SHARED_UNIT = 128  # in which shared memory is allocated, from compute capability 8.0 on
_WORKSPACE_BYTES = 8  # its size and the barrier's counter: `grid_workspace` in driver_abi.h


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
    total = geometry.blocks * _block_bytes(kernel, geometry)
    if geometry.cooperative and total > _MOST_RESIDENT_BYTES:
        reason = f"its {geometry.blocks} blocks hold {total >> 20} MiB at once"
        raise SimulatorRefusal(
            f"not simulated: a cooperative launch of {kernel.lowered.name}: {reason}"
        )


def _block_bytes(kernel: PreparedKernel, geometry: Geometry) -> int:
    """What the host keeps of a block that takes turns with others."""
    frame = kernel.lowered.frame
    per_warp = kernel.encoded.warp_bytes + 32 * frame.local_bytes
    shared = frame.shared_bytes + geometry.dynamic_shared_bytes
    return geometry.warps_per_block * per_warp + shared


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
    """Run a kernel to its end or its first fault.

    Raises:
        SimulatorRefusal: Its blocks wait for others, and the host cannot hold so many of them at once.
    """
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
    if result.crowded:
        raise SimulatorRefusal(
            f"not simulated: blocks of {kernel.lowered.name} wait for others, and "
            f"{request.most_resident} of its {geometry.blocks} blocks fill {_MOST_RESIDENT_BYTES >> 30} GiB"
        )
    executed = int(result.executed)
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
        fault=describe_fault(executor, kernel, geometry, result),
        wall_seconds=time.perf_counter() - started,
        unchecked=bool(result.unchecked),
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
        "%total_smem_size": -(-shared // _SHARED_UNIT) * _SHARED_UNIT,
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
        order=options.order,
        checks=options.checks,
        resident=max(1, geometry.resident_blocks),
        most_resident=max(1, _MOST_RESIDENT_BYTES // max(1, _block_bytes(kernel, geometry))),
        operand_lists=kernel.encoded.lists.ctypes.data,
    )
