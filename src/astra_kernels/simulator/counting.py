"""From the executor's raw counts per instruction to metrics."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from astra_kernels.simulator.executed import ExecutedBlock, executed_blocks
from astra_kernels.simulator.executor_interface import COUNTER_NAMES, LaunchResult
from astra_kernels.simulator.issue_cost import chain_weights, issue_slots, predicated
from astra_kernels.simulator.lowering.lower import LoweredKernel
from astra_kernels.simulator.lowering.microcode import MicroOp, Space
from astra_kernels.simulator.lowering.rounds import round_weights
from astra_kernels.simulator.records import Counters, LineCounters, SourceLine

WORK_KINDS = ("fp32", "fp64", "fp16", "xu", "alu", "lsu", "control", "sync")

# Loads that fewer warps than this part execute are taken to find their data in a cache.
_MOST_WARPS = 0.5
_XU = {"ex2", "lg2", "sin", "cos", "tanh", "rsqrt"}
_SYNC_HANDLERS = {"barrier", "barrier_arrive", "warp_barrier"}
_LSU_HANDLERS = {"load", "store", "atomic", "copy_async", "shuffle", "discard"}
_CONTROL_HANDLERS = {"branch", "exit", "nop", "trap", "copy_commit", "copy_wait", "grid_wait"}
_ARITHMETIC = {"add", "sub", "mul", "fma", "mad", "div", "sqrt", "rcp"}


def kind_of_work(operation: MicroOp) -> str:
    """Which of the multiprocessor's pipes an instruction occupies.

    Follows the table "Throughput of native arithmetic instructions" of the CUDA programming guide:
    conversions from and to other widths and approximations go to the special-function unit (`xu`),
    comparisons, logic and minima to the integer unit (`alu`).
    """
    if operation.handler in _SYNC_HANDLERS:
        return "sync"
    if operation.handler in _LSU_HANDLERS:
        return "lsu"
    if operation.handler in _CONTROL_HANDLERS:
        return "control"
    parts = operation.operation.split(".")
    family, last = parts[0], parts[-1]
    if family in _XU or "approx" in parts or "full" in parts:
        return "xu"
    if family == "cvt":
        return "fp64" if "f64" in parts else "xu" if {"s64", "u64"} & set(parts) else "alu"
    if last == "f64":
        return "fp64"
    if last in ("f16", "bf16", "f16x2", "bf16x2"):
        return "fp16"
    if last == "f32" and family in _ARITHMETIC:
        return "fp32"
    # Hopper multiplies integers in the same pipe as it fuses floats.
    return "fp32" if family in ("mul", "mad") else "alu"


@dataclass(frozen=True)
class _Row:
    operation: MicroOp
    counts: dict[str, int]


def _metrics(rows: list[_Row]) -> dict[str, int]:
    def total(what: str, *handlers: str) -> int:
        return sum(row.counts[what] for row in rows if row.operation.handler in handlers)

    def executed(handler: str, space: Space) -> int:
        """Instructions that name their space: ncu counts generic ones apart."""
        return sum(
            row.counts["shared_requests" if space == Space.SHARED else "global_requests"]
            for row in rows
            if row.operation.handler == handler and row.operation.memory.space == space
        )

    issued = [row for row in rows if row.operation.counted]
    prefix = "l1tex__t_{}_pipe_lsu_mem_global_op_{}.sum"
    wavefronts = "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_{}.sum"
    return {
        prefix.format("requests", "ld"): total("global_requests", "load", "copy_async"),
        prefix.format("sectors", "ld"): total("sectors", "load", "copy_async"),
        prefix.format("requests", "st"): total("global_requests", "store"),
        prefix.format("sectors", "st"): total("sectors", "store"),
        "smsp__inst_executed_op_shared_ld.sum": executed("load", Space.SHARED),
        "smsp__inst_executed_op_shared_st.sum": executed("store", Space.SHARED),
        wavefronts.format("ld"): total("wavefronts", "load", "load_matrices"),
        wavefronts.format("st"): total("wavefronts", "store", "store_matrices"),
        "l1tex__t_requests_pipe_lsu_mem_local_op_ld.sum": total("local_requests", "load"),
        "l1tex__t_requests_pipe_lsu_mem_local_op_st.sum": total("local_requests", "store"),
        "smsp__inst_executed_op_global_atom.sum": executed("atomic", Space.GLOBAL),
        "smsp__inst_executed.sum": sum(row.counts["warps"] for row in issued),
        "smsp__thread_inst_executed.sum": sum(row.counts["threads"] for row in issued),
        "smsp__thread_inst_executed_pred_on.sum": sum(row.counts["guarded_on"] for row in issued),
    }


def _lines(rows: list[_Row]) -> dict[SourceLine, LineCounters]:
    lines: dict[SourceLine, list[int]] = {}
    for row in rows:
        instruction = row.operation.instruction
        if instruction is None or instruction.line is None or not row.counts["warps"]:
            continue
        sums = lines.setdefault(instruction.line, [0, 0, 0, 0])
        sums[0] += row.counts["warps"] if row.operation.counted else 0
        sums[1] += row.counts["global_requests"]
        sums[2] += row.counts["sectors"]
        sums[3] += row.counts["wavefronts"]
    return {line: LineCounters(*sums) for line, sums in lines.items()}


def _slots(rows: list[_Row]) -> tuple[float, float]:
    others = special = 0.0
    for row in rows:
        if row.counts["warps"]:
            other, xu = issue_slots(row.operation)
            others += other * row.counts["warps"]
            special += xu * row.counts["warps"]
    return others + special, special


@dataclass(frozen=True)
class TimedCounters(Counters):
    """Counters with what only the time model needs.

    Attributes:
        chain_clocks: Clocks of a warp's instructions that wait for one another, on average.
        slowest_chain_clocks: The same for a warp that goes everywhere that any warp goes.
        slowest_load_rounds: How often such a warp waits for loads; those of a few warps in proportion.
        lines_read: 128-byte lines of global memory, counted for each load request.
        lines_written: The same for each store request.
        atomic_passes: 32-byte sectors of global memory, counted for each atomic operation of a warp as often
            as it has lanes that change the same address.
        busiest_atomic_passes: Those of the stretch of memory that has most of them; a stretch is in one
            slice of L2.
        blocks: How often each basic block ran: what machine code is matched with
            (`devices/executed_sass.py`).
    """

    chain_clocks: float
    slowest_chain_clocks: float
    slowest_load_rounds: float
    lines_read: int
    lines_written: int
    atomic_passes: int
    busiest_atomic_passes: int
    blocks: tuple[ExecutedBlock, ...]


def _lines_of(rows: list[_Row], *handlers: str) -> int:
    return sum(row.counts["lines"] for row in rows if row.operation.handler in handlers)


@dataclass(frozen=True)
class _Waits:
    """A warp's waits, on average and at the most."""

    chain_clocks: float
    slowest_chain_clocks: float
    load_rounds: float
    slowest_load_rounds: float


def _waits(kernel: LoweredKernel, rows: list[_Row], warps: int) -> _Waits:
    microcode = predicated(kernel.microcode)
    times = np.array([row.counts["warps"] for row in rows], np.float64) / warps
    most = np.ceil(times - 1e-3)  # a sample's scale leaves a little above whole numbers
    chains, rounds = np.array(chain_weights(microcode)), np.array(round_weights(microcode))
    return _Waits(
        chain_clocks=float(chains @ times),
        slowest_chain_clocks=float(chains @ most),
        load_rounds=float(rounds @ times),
        slowest_load_rounds=float(rounds @ np.where(times >= _MOST_WARPS, most, times)),
    )


@dataclass(frozen=True)
class Sampled:
    """How large a launch is, and how many of its blocks ran."""

    blocks: int
    executed: int
    warps_per_block: int


def summarise(
    kernel: LoweredKernel, raw: NDArray[np.uint64], result: LaunchResult, geometry: Sampled
) -> TimedCounters:
    """Counters of a launch.

    Args:
        kernel: What ran.
        raw: One row of counts for each micro-operation.
        result: The executor's totals.
        geometry: How many blocks and warps there are, and how many blocks ran.
    """
    scale = geometry.blocks / geometry.executed
    scaled = np.rint(raw.astype(np.float64) * scale).astype(np.int64).tolist()
    rows = [
        _Row(operation, dict(zip(COUNTER_NAMES, counts, strict=True)))
        for operation, counts in zip(kernel.microcode.operations, scaled, strict=True)
    ]
    metrics = _metrics(rows)
    instructions = dict.fromkeys(WORK_KINDS, 0)
    for row in rows:
        if row.operation.counted:
            instructions[kind_of_work(row.operation)] += row.counts["warps"]
    issued = metrics["smsp__inst_executed.sum"]
    slots, xu = _slots(rows)
    waits = _waits(kernel, rows, geometry.blocks * geometry.warps_per_block)
    return TimedCounters(
        metrics=metrics,
        instructions=instructions,
        issue_slots=slots,
        xu_slots=xu,
        load_rounds=waits.load_rounds,
        active_lanes=metrics["smsp__thread_inst_executed.sum"] / issued if issued else 0.0,
        dram_bytes_read=round(result.bytes_read * scale),
        distinct_bytes_written=round(result.bytes_written * scale),
        barriers=round(result.barriers * scale),
        lines=_lines(rows),
        chain_clocks=waits.chain_clocks,
        slowest_chain_clocks=waits.slowest_chain_clocks,
        slowest_load_rounds=waits.slowest_load_rounds,
        lines_read=_lines_of(rows, "load", "copy_async"),
        lines_written=_lines_of(rows, "store"),
        atomic_passes=sum(row.counts["atomic_passes"] for row in rows),
        busiest_atomic_passes=round(result.busiest_atomic_passes * scale),
        blocks=executed_blocks(
            kernel.microcode,
            [row.counts["warps"] for row in rows],
            [row.counts["global_requests"] + row.counts["shared_requests"] for row in rows],
            [row.counts["splits"] for row in rows],
        ),
    )
