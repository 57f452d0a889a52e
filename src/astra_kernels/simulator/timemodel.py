"""A model of a kernel's device time, from the counters of a simulated launch.

The time is a start, the first round of loads and work, and then two things that overlap in part:

- bytes through DRAM;
- what every multiprocessor does: it starts warps, and blocks wait for loads, for dependent instructions and
  for its pipes, wave after wave.

No launch is faster than its blocks can be handed out, or than L2 carries out its atomic operations.

Buffers are cold and launches do not overlap, as in `machines/h200_measured.json`. What comes out is a
modelled time; docs/simulator.md has the formula, and `stated_error` how far it is off.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from astra_kernels.simulator.counting import TimedCounters
from astra_kernels.simulator.machine import Machine
from astra_kernels.simulator.occupancy import Occupancy, occupancy
from astra_kernels.simulator.records import Launch

# Measured on an H200 (machines/h200_measured.json): an empty kernel, and the highest rate of bytes
# read plus written as a part of the datasheet's 4.8 TB/s.
_EMPTY_KERNEL_US = 0.51
_DRAM_EFFICIENCY = 4330 / 4800
# From the machine's structure: four schedulers, each starting one warp instruction a clock; 128 bytes, so
# four 32-byte sectors or a shared-memory wavefront, a clock in L1; two sectors a clock from L2, where a line
# of which less is asked for takes as long as a whole one.
_SCHEDULERS = 4
_L1_SECTORS_PER_CLOCK = 4
_L2_LINE_CLOCKS = 2.0
# The slices of L2, each 64 of 5120 bytes a clock, change a sector a clock by atomic operations; all that change
# the same stretch of memory (`kStretchBytes` of the executor) meet in one slice.
_L2_SLICES = 80
_WARP = 32
# Read off single rows of docs/results/h200-validation: kernels of blocks of two warps that do next to nothing
# (0.61 ns a block more), and a transpose whose stores meet a line in every lane.
_BLOCK_START_CLOCKS = 1.21
_WRITTEN_LINE_CLOCKS = 4.8
# Calibrated: fitted to the rows of h200_measured.json and to the points of docs/results/h200-validation that
# are not held out (tests/simulator/model_fit.py), and rounded.
_START_US = 0.57
_L2_ROUND_US = 0.215
_DRAM_ROUND_US = 0.375
_WARP_START_CLOCKS = 6.0
# How much things overlap: 1 adds them up, a large exponent takes the longest.
_WITHIN_BLOCK_OVERLAP = 8.0
_DRAM_OVERLAP = 2.35


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
        grid_start_us: Handing out all blocks, one after the other.
        block_start_us: Starting the busiest multiprocessor's warps.
        latency_us: Loads and dependent instructions one after the other, over all waves.
        bound: The largest part.
        occupancy: Of the kernel on this machine.
        waves: Blocks on the busiest multiprocessor over those that fit at once, at least 1.
    """

    device_us: float
    dram_us: float
    work_us: float
    grid_start_us: float
    block_start_us: float
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
    l2_us: float

    @property
    def total_us(self) -> float:
        """With the overlap of the pipes."""
        pipes = _join(_WITHIN_BLOCK_OVERLAP, self.issue_us, self.special_us, self.load_store_us)
        return max(pipes, self.l2_us)


@dataclass(frozen=True)
class _Placement:
    """How the blocks of a launch lie on the machine."""

    fit: Occupancy
    busiest: int
    """Blocks that the busiest multiprocessor runs."""
    resident: int
    """Of these, at once."""

    @property
    def waves(self) -> float:
        return self.busiest / self.resident


def _join(exponent: float, *parts: float) -> float:
    longest = max(parts)
    if longest <= 0:
        return 0.0
    return longest * float(sum((part / longest) ** exponent for part in parts) ** (1 / exponent))


def _block_work(
    launch: Launch, counters: TimedCounters, machine: Machine, r: Resources
) -> _BlockWork:
    clock, blocks = float(machine.clock_mhz), launch.blocks
    metrics = counters.metrics
    loaded, stored = (
        metrics[f"l1tex__t_sectors_pipe_lsu_mem_global_op_{op}.sum"] for op in ("ld", "st")
    )
    wavefronts = sum(
        metrics[f"l1tex__data_pipe_lsu_wavefronts_mem_shared_op_{op}.sum"] for op in ("ld", "st")
    )
    spills = r.spill_bytes * launch.threads_per_block / 128
    special_lanes = machine.lanes_per_clock_per_sm["xu"]
    slots = counters.issue_slots * r.instruction_scale
    l1_clocks = ((loaded + stored) / _L1_SECTORS_PER_CLOCK + wavefronts) / blocks + spills
    return _BlockWork(
        issue_us=slots / blocks / _SCHEDULERS / clock,
        special_us=counters.xu_slots / blocks * _WARP / special_lanes / clock,
        load_store_us=l1_clocks / clock,
        l2_us=max(
            counters.lines_read * _L2_LINE_CLOCKS, counters.lines_written * _WRITTEN_LINE_CLOCKS
        )
        / blocks
        / clock,
    )


def _atomics_us(counters: TimedCounters, machine: Machine) -> float:
    """What the busiest slice of L2 needs for atomic operations."""
    evenly = counters.atomic_passes / _L2_SLICES
    return max(evenly, counters.busiest_atomic_passes) / float(machine.clock_mhz)


def _round_us(counters: TimedCounters) -> float:
    """One wait for global loads."""
    loaded = 32 * counters.metrics["l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum"]
    from_dram = min(1.0, counters.dram_bytes_read / loaded) if loaded else 0.0
    return from_dram * _DRAM_ROUND_US + (1 - from_dram) * _L2_ROUND_US


def _place(launch: Launch, machine: Machine, resources: Resources) -> _Placement:
    shared = launch.static_shared_bytes + launch.dynamic_shared_bytes
    fit = occupancy(machine, launch.threads_per_block, resources.registers_per_thread, shared)
    if fit.blocks_per_sm == 0:
        raise ValueError(f"no block fits on a multiprocessor: {fit.limiter}")
    busiest = math.ceil(launch.blocks / machine.multiprocessors)
    return _Placement(fit, busiest, min(fit.blocks_per_sm, busiest))


@dataclass(frozen=True)
class _Waves:
    """The waits of all waves, the work of the blocks that share a multiprocessor included.

    Attributes:
        first_us: Until the first round of loads is through: nothing else is under way.
        later_us: Everything after it.
        waiting_us: Loads and dependent instructions alone.
    """

    first_us: float
    later_us: float
    waiting_us: float


def _waves(counters: TimedCounters, machine: Machine, place: _Placement, work_us: float) -> _Waves:
    round_us, clock = _round_us(counters), float(machine.clock_mhz)
    # Between barriers all warps wait for the slowest, so that others' work hides nothing.
    overlap = 1.0 if counters.barriers > 0 else _WITHIN_BLOCK_OVERLAP

    def wave_us(rounds: float, chain_clocks: float) -> float:
        return rounds * round_us + _join(overlap, chain_clocks / clock, place.resident * work_us)

    slowest = wave_us(counters.slowest_load_rounds, counters.slowest_chain_clocks)
    average = wave_us(counters.load_rounds, counters.chain_clocks)
    first = slowest / max(1.0, counters.slowest_load_rounds)
    return _Waves(
        first_us=first,
        later_us=slowest - first + (place.waves - 1) * average,
        waiting_us=place.waves * (counters.load_rounds * round_us + counters.chain_clocks / clock),
    )


def model_time(launch: Launch, machine: Machine, resources: Resources) -> ModelledTime:
    """Model the device time of one launch with cold caches.

    Raises:
        ValueError: The launch has no counters, or does not fit on the machine.
    """
    counters = launch.counters
    if not isinstance(counters, TimedCounters):
        raise ValueError("a time can be modelled only from a launch with counters")
    place = _place(launch, machine, resources)
    work = _block_work(launch, counters, machine, resources)
    waves = _waves(counters, machine, place, work.total_us)

    bandwidth = machine.memory_bandwidth_gb_s * _DRAM_EFFICIENCY * 1e3  # bytes a microsecond
    dram_us = (counters.dram_bytes_read + counters.distinct_bytes_written) / bandwidth
    clock = float(machine.clock_mhz)
    warps = -(-launch.threads_per_block // _WARP)
    # A multiprocessor starts one warp after the other, and in every wave a block waits for its last one.
    warp_start_us = (place.busiest + place.waves) * warps * _WARP_START_CLOCKS / clock
    grid_start_us = launch.blocks * _BLOCK_START_CLOCKS / clock
    floor_us = _EMPTY_KERNEL_US + _START_US
    running_us = waves.first_us + _join(_DRAM_OVERLAP, dram_us, warp_start_us + waves.later_us)
    # Atomic operations of earlier waves are carried out beside later ones; nothing hides those of the last.
    atomics_us = _atomics_us(counters, machine)
    changed_us = max(running_us + atomics_us / place.waves, waves.first_us + atomics_us)
    parts = {
        Bound.LAUNCH: floor_us + max(warp_start_us, grid_start_us),
        Bound.DRAM: dram_us,
        Bound.ISSUE: place.busiest * work.issue_us,
        Bound.SPECIAL_FUNCTIONS: place.busiest * work.special_us,
        Bound.LOAD_STORE: place.busiest * max(work.load_store_us, work.l2_us),
        Bound.LATENCY: waves.waiting_us,
    }
    return ModelledTime(
        device_us=floor_us + max(changed_us, grid_start_us),
        dram_us=dram_us,
        work_us=place.busiest * work.total_us,
        grid_start_us=grid_start_us,
        block_start_us=warp_start_us,
        latency_us=waves.first_us + waves.later_us,
        bound=max(parts, key=lambda part: parts[part]),
        occupancy=place.fit,
        waves=place.waves,
    )


def model_time_us(launch: Launch, machine: Machine, resources: Resources) -> float:
    """The modelled device time alone; see `model_time`."""
    return model_time(launch, machine, resources).device_us


@dataclass(frozen=True)
class GainError:
    """How far modelled gains, a time over another on the same workload, are from measured ones.

    Attributes:
        pairs: Of kernels on a workload where they launch different work.
        root_mean_square: Of the logarithm of modelled over measured gain, over the pairs.
        worst: The largest of them.
        geomeans: Of pairs of kernels over all their workloads, also those where they are the same.
        geomean_root_mean_square: The same error of the geometric means.
        geomean_worst: The largest of them.
        ordered: Part of the pairs measured more than 1 % apart that are modelled in the same order.
    """

    pairs: int
    root_mean_square: float
    worst: float
    geomeans: int
    geomean_root_mean_square: float
    geomean_worst: float
    ordered: float


@dataclass(frozen=True)
class StatedError:
    """How far the model is from measurements, and which ones.

    Attributes:
        rows: How many measured times it was compared with.
        root_mean_square: Of the logarithm of modelled over measured time.
        worst: The largest of them.
        calibrated_on_them: Whether constants were fitted to the same rows. If not, each problem's rows
            were modelled with constants fitted to the other problems.
        gain: Of gains, with all blocks run.
        sampled_gain: Of gains, with only as many blocks run as the device runs of unchecked workloads.
        unseen_gain: Of gains of candidates that the model of then had not seen
            (`machines/h200_unseen_gains.json`): the figure to state beside a modelled gain.
        source: The file with the measurements.
    """

    rows: int
    root_mean_square: float
    worst: float
    calibrated_on_them: bool
    gain: GainError
    sampled_gain: GainError
    unseen_gain: GainError
    source: str


def stated_error() -> StatedError:
    """The model's error on the H200, from `machines/h200_model_error.json`.

    A test computes the numbers of that file again.
    """
    path = Path(__file__).parent / "machines" / "h200_model_error.json"
    data = json.loads(path.read_text(encoding="utf-8"))
    gain, sampled, unseen = (
        GainError(**data.pop(name)) for name in ("gain", "sampled_gain", "unseen_gain")
    )
    return StatedError(**data, gain=gain, sampled_gain=sampled, unseen_gain=unseen)
