"""How often a warp must wait for global memory: rounds of loads that depend on one another.

Loads of one basic block that do not depend on each other are under way together, as ptxas moves them to
the front of the block; a load whose address was loaded, or that comes after a barrier, starts another
round. So does an ordinary load after a store to global memory, which it must not overtake as far as ptxas
knows.
"""

from __future__ import annotations

from astra_kernels.simulator.lowering.allocate import block_starts
from astra_kernels.simulator.lowering.microcode import Microcode, MicroOp, Register, Space

_FAR = (Space.GLOBAL, Space.GENERIC)


def _is_read_only(operation: MicroOp) -> bool:
    return operation.instruction is not None and "nc" in operation.instruction.parts


class _Block:
    """Follows, through one basic block, how many rounds each value had to wait for."""

    def __init__(self) -> None:
        self._depth: dict[Register, int] = {}
        self._after_stores = 0
        self._after_barriers = 0
        self._deepest = 0

    def starts_round(self, operation: MicroOp) -> float:
        """How much of a round this operation starts: 1, 0, or a part for staged copies."""
        depth = max(
            [self._depth.get(s, 0) for s in operation.sources if isinstance(s, Register)],
            default=0,
        )
        started = 0.0
        if operation.handler == "copy_wait":
            # With n groups left under way, a wait sees only what they could not hide.
            started = 1.0 / (1 + max(operation.immediate, 0))
        elif operation.handler in ("barrier", "warp_barrier"):
            self._after_barriers = self._deepest
        elif operation.handler == "store" and operation.memory.space in _FAR:
            self._after_stores = max(self._after_stores, depth)
        elif operation.handler in ("load", "atomic") and operation.memory.space in _FAR:
            depth = max(depth, self._after_barriers)
            if not _is_read_only(operation):
                depth = max(depth, self._after_stores)
            depth += 1
            started = 1.0 if depth > self._deepest else 0.0
            self._deepest = max(self._deepest, depth)
        for result in operation.results:
            if result is not None:
                self._depth[result] = depth
        return started


def round_weights(microcode: Microcode) -> list[float]:
    """For each micro-operation, how many rounds it starts every time that a warp executes it."""
    starts = set(block_starts(microcode))
    weights, block = [], _Block()
    for index, operation in enumerate(microcode.operations):
        if index in starts:
            block = _Block()
        weights.append(block.starts_round(operation))
    return weights
