"""A first model of a kernel's device time, from the counters of a simulated launch.

The time is a start, plus whichever lasts longer of two things that mostly overlap:

- throughput: bytes through DRAM, and work through the multiprocessors' pipes;
- latency: the chain of loads, barriers and instructions that one block goes through, once for each
  wave of blocks.

Buffers are cold and launches do not overlap, as in `machines/h200_measured.json`. What comes out is a
modelled time, good to order candidates that differ much; its error is stated by `stated_error`.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from astra_kernels.simulator.machine import Machine
from astra_kernels.simulator.occupancy import Occupancy, occupancy
from astra_kernels.simulator.records import Counters, Launch

# Measured on an H200 (machines/h200_measured.json): an empty kernel, and the highest rate of bytes
# read plus written as a part of the datasheet's 4.8 TB/s.
_EMPTY_KERNEL_US = 0.56
_DRAM_EFFICIENCY = 4330 / 4800
# From the machine's structure: four schedulers, each starting one warp instruction a clock; a 128-byte
# shared-memory wavefront a clock; two 32-byte sectors a clock from L2.
_SCHEDULERS = 4
_SECTORS_PER_CLOCK = 2
_WARP = 32
# Calibrated: fitted to the rows of h200_measured.json, and rounded. The latencies include what cold
# buffers add (address translation), and queueing behind other warps.
_START_US = 0.2
_DRAM_ROUND_US = 1.17
_L2_ROUND_US = 0.3
_BARRIER_US = 0.2
_CLOCKS_PER_DEPENDENT_SLOT = 2.5
# How much things overlap: 1 adds them up, a large exponent takes the longest.
_PIPES_OVERLAP = 1.25
_DRAM_AND_WORK_OVERLAP = 1.25
_THROUGHPUT_AND_LATENCY_OVERLAP = 4.0


class Bound(StrEnum):
    """What a modelled time mostly consists of."""

    LAUNCH = "launch"
    DRAM = "dram"
    ISSUE = "issue"
    SPECIAL_FUNCTIONS = "special_functions"
    LOAD_STORE = "load_store"
    LATENCY = "latency"


@dataclass(frozen=True)
class Resources:
    """What the compiler says of a kernel.

    Attributes:
        registers_per_thread: From ptxas.
        spill_bytes: Spilled loads and stores of a thread, from ptxas.
        instruction_scale: Warp instructions of the machine code over `Counters.issue_slots`, where a
            caller has counted them; 1 takes the estimate from PTX.
    """

    registers_per_thread: int
    spill_bytes: int = 0
    instruction_scale: float = 1.0


@dataclass(frozen=True)
class ModelledTime:
    """A modelled device time and where it comes from, in microseconds.

    Attributes:
        device_us: The time.
        dram_us: All distinct bytes at the highest rate.
        work_us: The busiest multiprocessor's pipes.
        latency_us: The chain of waits, over all waves.
        bound: The largest part.
        occupancy: Of the kernel on this machine.
        waves: Blocks on the busiest multiprocessor over those that fit at once, at least 1.
    """

    device_us: float
    dram_us: float
    work_us: float
    latency_us: float
    bound: Bound
    occupancy: Occupancy
    waves: float


@dataclass(frozen=True)
class _BlockWork:
    """One block's time in each pipe, when it has the multiprocessor to itself."""

    issue_us: float
    special_us: float
    load_store_us: float

    @property
    def total_us(self) -> float:
        """With the overlap of the pipes."""
        return max(_join(_PIPES_OVERLAP, self.issue_us, self.special_us), self.load_store_us)


def _join(exponent: float, *parts: float) -> float:
    return float(sum(part**exponent for part in parts) ** (1 / exponent))


def _block_work(launch: Launch, counters: Counters, machine: Machine, r: Resources) -> _BlockWork:
    clock, blocks = float(machine.clock_mhz), launch.blocks
    metrics = counters.metrics
    sectors = sum(
        metrics[f"l1tex__t_sectors_pipe_lsu_mem_global_op_{op}.sum"] for op in ("ld", "st")
    )
    wavefronts = sum(
        metrics[f"l1tex__data_pipe_lsu_wavefronts_mem_shared_op_{op}.sum"] for op in ("ld", "st")
    )
    spills = r.spill_bytes * launch.threads_per_block / 128
    special_lanes = machine.lanes_per_clock_per_sm["xu"]
    slots = counters.issue_slots * r.instruction_scale
    return _BlockWork(
        issue_us=slots / blocks / _SCHEDULERS / clock,
        special_us=counters.xu_slots / blocks * _WARP / special_lanes / clock,
        load_store_us=((sectors / _SECTORS_PER_CLOCK + wavefronts) / blocks + spills) / clock,
    )


def _waiting_us(counters: Counters, blocks: int) -> float:
    """What a block waits for loads and at barriers, one after the other."""
    loaded = 32 * counters.metrics["l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum"]
    from_dram = min(1.0, counters.dram_bytes_read / loaded) if loaded else 0.0
    round_us = from_dram * _DRAM_ROUND_US + (1 - from_dram) * _L2_ROUND_US
    return counters.load_rounds * round_us + counters.barriers / blocks * _BARRIER_US


def model_time(launch: Launch, machine: Machine, resources: Resources) -> ModelledTime:
    """Model the device time of one launch with cold caches.

    Raises:
        ValueError: The launch has no counters, or does not fit on the machine.
    """
    counters = launch.counters
    if counters is None:
        raise ValueError("a time can be modelled only from a launch with counters")
    shared = launch.static_shared_bytes + launch.dynamic_shared_bytes
    fit = occupancy(machine, launch.threads_per_block, resources.registers_per_thread, shared)
    if fit.blocks_per_sm == 0:
        raise ValueError(f"no block fits on a multiprocessor: {fit.limiter}")
    busiest = math.ceil(launch.blocks / machine.multiprocessors)
    resident = min(fit.blocks_per_sm, busiest)
    waves = busiest / resident

    work = _block_work(launch, counters, machine, resources)
    bandwidth = machine.memory_bandwidth_gb_s * _DRAM_EFFICIENCY * 1e3  # bytes a microsecond
    dram_us = (counters.dram_bytes_read + counters.dram_bytes_written) / bandwidth
    work_us = busiest * work.total_us
    throughput_us = _join(_DRAM_AND_WORK_OVERLAP, dram_us, work_us)

    warps = launch.blocks * -(-launch.threads_per_block // _WARP)
    one_warp_us = (
        counters.issue_slots / warps * _CLOCKS_PER_DEPENDENT_SLOT / float(machine.clock_mhz)
    )
    waiting_us = waves * _waiting_us(counters, launch.blocks)
    latency_us = waiting_us + max(resident * work.total_us, one_warp_us)
    floor_us = _EMPTY_KERNEL_US + _START_US
    parts = {
        Bound.LAUNCH: floor_us,
        Bound.DRAM: dram_us,
        Bound.ISSUE: busiest * work.issue_us,
        Bound.SPECIAL_FUNCTIONS: busiest * work.special_us,
        Bound.LOAD_STORE: busiest * work.load_store_us,
        Bound.LATENCY: waiting_us + one_warp_us,
    }
    return ModelledTime(
        device_us=floor_us + _join(_THROUGHPUT_AND_LATENCY_OVERLAP, throughput_us, latency_us),
        dram_us=dram_us,
        work_us=work_us,
        latency_us=latency_us,
        bound=max(parts, key=lambda part: parts[part]),
        occupancy=fit,
        waves=waves,
    )


def model_time_us(launch: Launch, machine: Machine, resources: Resources) -> float:
    """The modelled device time alone; see `model_time`."""
    return model_time(launch, machine, resources).device_us


@dataclass(frozen=True)
class StatedError:
    """How far the model is from measurements, and which ones.

    Attributes:
        rows: How many measured times it was compared with.
        root_mean_square: Of the relative errors.
        worst: The largest relative error.
        calibrated_on_them: Whether constants were fitted to the same rows, so that other kernels
            must be expected to be further off.
        source: The file with the measurements.
    """

    rows: int
    root_mean_square: float
    worst: float
    calibrated_on_them: bool
    source: str


def stated_error() -> StatedError:
    """The model's error on the H200, from `machines/h200_model_error.json`.

    A test computes the numbers of that file again.
    """
    path = Path(__file__).parent / "machines" / "h200_model_error.json"
    return StatedError(**json.loads(path.read_text(encoding="utf-8")))
