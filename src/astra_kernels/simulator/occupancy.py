"""How many blocks of a kernel fit on a multiprocessor, as the CUDA occupancy calculator computes it.

Rules and granularities: NVIDIA Nsight Compute's occupancy calculator, compute capability 8.0 to 9.0:
registers are given to warps in units of 256, a quarter of them to each scheduler; shared memory in units
of 128 bytes, with 1 KiB reserved for each block.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from astra_kernels.simulator.machine import Machine

_WARP = 32
_SCHEDULERS = 4
_REGISTER_UNIT = 256
_SHARED_UNIT = 128


class Limiter(StrEnum):
    """What keeps more blocks from fitting."""

    THREADS = "threads"
    BLOCKS = "blocks"
    REGISTERS = "registers"
    SHARED_MEMORY = "shared_memory"


@dataclass(frozen=True)
class Occupancy:
    """Blocks and warps on one multiprocessor at once."""

    blocks_per_sm: int
    warps_per_sm: int
    fraction: float
    limiter: Limiter


def occupancy(
    machine: Machine, threads_per_block: int, registers_per_thread: int, shared_bytes: int
) -> Occupancy:
    """Compute the occupancy.

    Args:
        machine: Whose limits.
        threads_per_block: As launched.
        registers_per_thread: As ptxas prints.
        shared_bytes: Static and dynamic shared memory of a block.

    Returns:
        With 0 blocks where the kernel cannot be launched at all.
    """
    warps = -(-threads_per_block // _WARP)
    per_warp = -(-max(registers_per_thread, 1) * _WARP // _REGISTER_UNIT) * _REGISTER_UNIT
    warps_by_registers = machine.registers_per_sm // _SCHEDULERS // per_warp * _SCHEDULERS
    shared = shared_bytes + machine.shared_reserved_bytes
    shared = -(-shared // _SHARED_UNIT) * _SHARED_UNIT
    limits = {
        Limiter.THREADS: machine.max_threads_per_sm // _WARP // warps,
        Limiter.BLOCKS: machine.max_blocks_per_sm,
        Limiter.REGISTERS: warps_by_registers // warps,
        Limiter.SHARED_MEMORY: machine.shared_bytes_per_sm // shared,
    }
    limiter = min(limits, key=lambda name: limits[name])
    blocks = limits[limiter]
    resident = blocks * warps
    return Occupancy(blocks, resident, resident * _WARP / machine.max_threads_per_sm, limiter)
