"""Which loads ptxas leaves out, because a register still has what they would bring.

Seen in machine code of ptxas 13.0 for compute_90 (`tests/simulator/test_repeated_loads.py` compiles it
again): of two weak loads of one width and kind from one address in a basic block the second goes, unless a
store or an atomic that may reach the address, a barrier, or a fence lies between; stores do not hold
those through the read-only path (`ld.global.nc`). Here the second load still runs, and costs nothing.
Addresses are one when they are the same register, unchanged, and the same offset: ptxas sees through
more, and through some branches, of which nvcc leaves little.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from astra_kernels.simulator.lowering.allocate import block_starts
from astra_kernels.simulator.lowering.microcode import (
    FENCE,
    MERGED,
    Microcode,
    MicroOp,
    Register,
    Space,
    Value,
)

_SPACES = (Space.GLOBAL, Space.SHARED, Space.GENERIC)
_LEAVE_MEMORY = frozenset(
    {
        "elementwise", "load", "load_matrices", "transpose_matrix", "multiply_matrices", "shuffle",
        "vote", "match", "reduce", "active_mask", "clock", "copy_commit",
    }
)  # fmt: skip


@dataclass(frozen=True)
class _Load:
    """What two loads must have in common."""

    base: Value | None
    offset: int
    guard: tuple[Register, bool] | None
    space: Space
    element_bytes: int
    elements: int
    modifiers: tuple[str, ...]

    @property
    def read_only(self) -> bool:
        return "nc" in self.modifiers

    @property
    def registers(self) -> set[Register]:
        """Those that it reads."""
        read = {self.base} if isinstance(self.base, Register) else set[Register]()
        return read | ({self.guard[0]} if self.guard else set())

    def reached_by(self, space: Space) -> bool:
        """Whether a store to this space may change what it loads."""
        return not self.read_only and (space == self.space or Space.GENERIC in (space, self.space))


def _load_of(operation: MicroOp) -> _Load | None:
    memory, instruction = operation.memory, operation.instruction
    if operation.handler != "load" or memory.space not in _SPACES or instruction is None:
        return None
    if memory.order:  # a strong load may see another value every time
        return None
    modifiers = instruction.parts[:-1]
    sign = "s" if memory.sign_extend and memory.element_bytes < 4 else ""
    return _Load(
        operation.sources[0],
        operation.immediate,
        operation.guard,
        memory.space,
        memory.element_bytes,
        memory.elements,
        (*modifiers, sign),
    )


def _leaves_memory(operation: MicroOp) -> bool:
    """Whether what was loaded before is known to be in memory still."""
    fence = operation.handler == "nop" and operation.mode == FENCE
    known = operation.handler in _LEAVE_MEMORY or operation.handler == "nop"
    return known and not fence and not operation.memory.order


def _forget(known: set[_Load], space: Space) -> None:
    known.difference_update([load for load in known if load.reached_by(space)])


def mark_repeated_loads(microcode: Microcode) -> None:
    """Mark the loads that an earlier one of their basic block has made needless."""
    starts = set(block_starts(microcode))
    known: set[_Load] = set()

    for index, operation in enumerate(microcode.operations):
        if index in starts:
            known.clear()
        if operation.handler == "store" and not operation.memory.order:
            _forget(known, operation.memory.space)
        elif not _leaves_memory(operation):
            known.clear()
        load = _load_of(operation)
        if load in known:
            operation.memory = replace(operation.memory, counted_bytes=MERGED)
            operation.counted = False
        if load is not None:
            known.add(load)
        written = {result for result in operation.results if result is not None}
        if written:
            known.difference_update([load for load in known if load.registers & written])
