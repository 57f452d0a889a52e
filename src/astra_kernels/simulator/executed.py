"""What a launch executed, by basic block of its PTX: what machine code is matched with."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from astra_kernels.simulator.lowering.allocate import block_starts
from astra_kernels.simulator.lowering.microcode import Microcode, MicroOp, Space

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
}
_ARITHMETIC = {
    "f32": "float",
    "f64": "double",
    **dict.fromkeys(("f16", "f16x2", "bf16", "bf16x2"), "half"),
}
_EXPANDED = ("div", "rcp", "sqrt", "rem")
"""Instructions that machine code makes of the same arithmetic as it has of others."""


@dataclass(frozen=True)
class ExecutedBlock:
    """A basic block of a kernel's PTX.

    Attributes:
        executions: how many warps ran it, over all blocks of the launch; its most frequent instruction.
        lines: instructions that come from each source line, (file, line).
        anchors: of these, accesses, exchanges and barriers, by kind and line: machine code has one each.
        loops: how many loops it is inside.
    """

    executions: int
    lines: Mapping[Line, int]
    anchors: Mapping[Anchor, float]
    loops: int


def executed_blocks(
    microcode: Microcode, warps: Sequence[int], requests: Sequence[int]
) -> tuple[ExecutedBlock, ...]:
    """The blocks in their order.

    Args:
        microcode: the kernel.
        warps: how many warps ran each micro-operation.
        requests: how many accesses it made; several a warp where neighbours could have been merged
            into one but did not lie right.
    """
    starts = block_starts(microcode)
    ends = [*starts[1:], len(microcode.operations)]
    depths = _depths(microcode)
    expanded = {
        _line(o) for o in microcode.operations if o.operation.partition(".")[0] in _EXPANDED
    }
    blocks: list[ExecutedBlock] = []
    for start, end in zip(starts, ends, strict=True):
        lines: Counter[Line] = Counter()
        anchors: dict[Anchor, float] = {}
        for index in range(start, end):
            operation = microcode.operations[index]
            line = _line(operation)
            if line is None or not operation.counted:
                continue
            lines[line] += 1
            kind = _anchor(operation)
            if kind and not (kind in _ARITHMETIC.values() and line in expanded):
                merges = operation.memory.counted_bytes > 0 and warps[index] > 0
                each = requests[index] / warps[index] if merges else 1.0
                anchors[kind, line] = anchors.get((kind, line), 0.0) + each
        blocks.append(ExecutedBlock(max(warps[start:end]), lines, anchors, depths[start]))
    return tuple(blocks)


def _line(operation: MicroOp) -> Line | None:
    instruction = operation.instruction
    if instruction is None or instruction.line is None:
        return None
    innermost = instruction.innermost or instruction.line
    return innermost.file, innermost.line, instruction.line.line


def _anchor(operation: MicroOp) -> str | None:
    by_space = _BY_SPACE.get((operation.handler, operation.memory.space))
    if by_space or operation.handler != "elementwise":
        return by_space or _BY_HANDLER.get(operation.handler)
    parts = operation.operation.split(".")
    return _ARITHMETIC.get(parts[-1]) if parts[0] in ("add", "sub", "mul", "fma") else None


def _depths(microcode: Microcode) -> list[int]:
    """How many loops each micro-operation is inside: stretches from a target to a later branch to it."""
    depths = [0] * len(microcode.operations)
    for index, operation in enumerate(microcode.operations):
        target = operation.target
        if operation.handler != "branch" or target is None:
            continue
        for inside in range(microcode.labels[target], index + 1):
            depths[inside] += 1
    return depths
