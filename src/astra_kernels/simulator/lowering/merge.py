"""Which shared-memory accesses ptxas joins into one, so that they are counted as one.

nvcc's PTX stores four neighbouring floats one by one; the machine code has one 16-byte store. Here they
still run one by one, but the first of them counts for all when its addresses are aligned at run time.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TypeAlias

from astra_kernels.simulator.lowering.allocate import block_starts
from astra_kernels.simulator.lowering.microcode import (
    MERGED,
    Microcode,
    MicroOp,
    Register,
    Space,
    Value,
)

_ELEMENT = 4
_Key: TypeAlias = tuple[str, Value | None, tuple[Register, bool] | None]


def _key(operation: MicroOp) -> _Key | None:
    memory = operation.memory
    single = memory.space == Space.SHARED and memory.elements == 1
    if operation.handler not in ("load", "store") or not single or memory.element_bytes != _ELEMENT:
        return None
    if memory.counted_bytes == MERGED:  # one that is repeated
        return None
    return operation.handler, operation.sources[0], operation.guard


@dataclass
class _Run:
    """Accesses by the same base that nothing separates."""

    at: dict[int, MicroOp] = field(default_factory=dict)

    def close(self) -> None:
        """Mark groups of four and of two neighbours."""
        for size in (16, 8):
            lowest = min(self.at, default=0)
            for offset in sorted(self.at):
                group = [offset + distance for distance in range(0, size, _ELEMENT)]
                aligned = offset % size == 0 or (offset - lowest) % size == 0
                if not aligned or not all(place in self.at for place in group):
                    continue
                members = [self.at.pop(place) for place in group]
                members[0].memory = replace(members[0].memory, counted_bytes=size)
                for member in members[1:]:
                    member.memory = replace(member.memory, counted_bytes=MERGED)
                    member.counted = False
        self.at.clear()


def mark_merged_accesses(microcode: Microcode) -> None:
    """Find the runs in each basic block and mark them.

    Loads by several bases may be mixed, as those of two tiles are; a store ends all runs but its own.
    """
    starts = set(block_starts(microcode))
    runs: dict[_Key, _Run] = {}
    for index, operation in enumerate(microcode.operations):
        key = _key(operation)
        if index in starts or operation.handler in ("barrier", "warp_barrier", "copy_wait"):
            _close(runs, list(runs))
        shared = operation.memory.space in (Space.SHARED, Space.GENERIC)
        if operation.handler in ("store", "atomic", "copy_async") and shared:
            _close(runs, [other for other in runs if other != key])
        elif operation.handler == "load" and shared:
            _close(runs, [other for other in runs if other[0] == "store"])
        if key is not None:
            run = runs.setdefault(key, _Run())
            if operation.immediate in run.at:
                run.close()
            run.at[operation.immediate] = operation
        written = [result for result in operation.results if result is not None]
        _close(runs, [other for other in runs if other[1] in written])
    _close(runs, list(runs))


def _close(runs: dict[_Key, _Run], keys: list[_Key]) -> None:
    for key in keys:
        runs.pop(key).close()
