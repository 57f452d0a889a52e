"""The shape of a launch."""

from __future__ import annotations

from dataclasses import dataclass

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
        resident_blocks: How many blocks the device has room for at once.
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
    resident_blocks: int = 132

    @property
    def blocks(self) -> int:
        """Blocks in the grid."""
        return self.grid[0] * self.grid[1] * self.grid[2]

    @property
    def warps_per_block(self) -> int:
        """Warps of a block, the last one perhaps partly empty."""
        return -(-self.block[0] * self.block[1] * self.block[2] // 32)
