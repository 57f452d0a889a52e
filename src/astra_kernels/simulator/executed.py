"""What a launch executed, by basic block of its PTX: what machine code is matched with."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from astra_kernels.simulator.lowering.allocate import block_starts, block_successors
from astra_kernels.simulator.lowering.microcode import MERGED, Microcode, MicroOp, Space

Line = tuple[str, int, int]
"""File and line of the innermost inlined code, and the line in the kernel's own file."""
Anchor = tuple[str, Line]
"""A kind of instruction, and where it comes from."""
_BY_SPACE = {
    ("load", Space.GLOBAL): "global_load",
    ("load", Space.GENERIC): "global_load",
    ("store", Space.GLOBAL): "global_store",
    ("store", Space.GENERIC): "global_store",
    ("load", Space.SHARED): "shared_load",
    ("store", Space.SHARED): "shared_store",
}
_BY_HANDLER = {
    "atomic": "atomic",
    "copy_async": "async_copy",
    "shuffle": "shuffle",
    "barrier": "barrier",
    "load_matrices": "matrix_load",
    "store_matrices": "matrix_store",
    "transpose_matrix": "matrix_transpose",
}
_OPERATIONS = {
    "f32": "float",
    "f64": "double",
    **dict.fromkeys(("f16", "f16x2", "bf16", "bf16x2"), "half"),
}
ARITHMETIC = frozenset(_OPERATIONS.values())
"""Kinds of anchors that machine code may have more of: it scales arguments, and divides by multiplying."""
_EXPANDED = ("div", "rcp", "sqrt", "rem")
"""Instructions that machine code makes of the same arithmetic as it has of others."""


@dataclass(frozen=True)
class ExecutedBlock:
    """A basic block of a kernel's PTX.

    Attributes:
        executions: how many warps ran it, over all blocks of the launch; its most frequent instruction.
        lines: instructions that come from each source line, (file, line).
        anchors: of these, accesses, exchanges and barriers, by kind and line: machine code has one each.
        successors: numbers of the blocks that may follow; the number of blocks stands for the end.
        splits: how often the lanes of a warp parted at its branch.
    """

    executions: int
    lines: Mapping[Line, int]
    anchors: Mapping[Anchor, float]
    successors: tuple[int, ...]
    splits: int = 0


def executed_blocks(
    microcode: Microcode, warps: Sequence[int], requests: Sequence[int], splits: Sequence[int]
) -> tuple[ExecutedBlock, ...]:
    """The blocks in their order.

    Args:
        microcode: the kernel.
        warps: how many warps ran each micro-operation.
        requests: how many accesses it made; several a warp where neighbours could have been merged
            into one but did not lie right.
        splits: how often the lanes of a warp parted at it.
    """
    starts = block_starts(microcode)
    ends = [*starts[1:], len(microcode.operations)]
    successors = block_successors(microcode)
    expanded = {
        _line(o) for o in microcode.operations if o.operation.partition(".")[0] in _EXPANDED
    }
    blocks: list[ExecutedBlock] = []
    for number, (start, end) in enumerate(zip(starts, ends, strict=True)):
        lines: Counter[Line] = Counter()
        anchors: dict[Anchor, float] = {}
        for index in range(start, end):
            operation = microcode.operations[index]
            line = _line(operation)
            if line is None or not operation.issued:
                continue
            lines[line] += operation.counted
            kind = _anchor(operation)
            if kind and not (kind in ARITHMETIC and line in expanded):
                merges = operation.memory.counted_bytes > 0 and warps[index] > 0
                each = requests[index] / warps[index] if merges else 1.0
                anchors[kind, line] = anchors.get((kind, line), 0.0) + each
        blocks.append(
            ExecutedBlock(
                max(warps[start:end]), lines, anchors, successors[number], sum(splits[start:end])
            )
        )
    return tuple(blocks)


def _line(operation: MicroOp) -> Line | None:
    instruction = operation.instruction
    if instruction is None or instruction.line is None:
        return None
    innermost = instruction.innermost or instruction.line
    return innermost.file, innermost.line, instruction.line.line


def access(kind: str, width: int) -> str:
    """The kind of anchor that an access of so many bytes a lane is."""
    return f"{kind}_{width}"


def _anchor(operation: MicroOp) -> str | None:
    by_space = _BY_SPACE.get((operation.handler, operation.memory.space))
    if by_space:
        memory = operation.memory
        merged = memory.counted_bytes if memory.counted_bytes != MERGED else 0
        return access(by_space, merged or memory.element_bytes * memory.elements)
    if operation.handler != "elementwise":
        return _BY_HANDLER.get(operation.handler)
    parts = operation.operation.split(".")
    return _OPERATIONS.get(parts[-1]) if parts[0] in ("add", "sub", "mul", "fma") else None
