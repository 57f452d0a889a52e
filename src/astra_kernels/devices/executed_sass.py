"""How often each class of machine instruction ran, from the code itself and a simulated launch's counts.

The simulator runs PTX; ptxas makes other instructions of it. Here every basic block of the machine code
is matched with the blocks of the PTX that its source lines come from, and takes the number of times that
warps ran those. Nothing is fitted to a profiler. Rules, for what ptxas does:

- a block is compared only with blocks inside as many loops; where there are none, with all;
- of several PTX blocks in one (short branches become predicates) the one that ran most often counts;
- where loads, stores, exchanges, barriers and plain float arithmetic come out more or less often than they
  ran (an unrolled loop, a copy of a tail), the machine blocks that hold them are scaled;
- slow paths of divisions and roots do not run, nor exchanges among lanes that do not come together.
"""

from __future__ import annotations

import re
import statistics
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from astra_kernels.languages.cuda.outcome import Built
from astra_kernels.languages.cuda.sass import instruction_class, listings
from astra_kernels.languages.cuda.toolchain import Toolchain
from astra_kernels.simulator.executed import Anchor, ExecutedBlock, Line

_FUNCTION = re.compile(r"\s*\.section\s+\.text\.(?P<name>[^,\s]+)")
_LINE = re.compile(r'\s*//## File "(?P<file>[^"]+)", line (?P<line>\d+)(?P<inlined> inlined at)?')
_LABEL = re.compile(r"(?P<label>[.$][\w.$]+):")
_INSTRUCTION = re.compile(
    r"\s*/\*[0-9a-f]{4,}\*/\s+(?P<predicate>@!?U?P[T\d]\s+)?(?P<opcode>[A-Z][\w.]*)(?P<rest>[^;]*)"
)
_TARGET = re.compile(r"`\((?P<label>[^)]+)\)")
_ENDS = ("BRA", "BRX", "JMP", "EXIT", "RET", "CALL", "BREAK", "WARPEXIT")
_ANCHORS = {
    **dict.fromkeys(("LDG", "LD"), "global_load"),
    **dict.fromkeys(("STG", "ST"), "global_store"),
    **dict.fromkeys(("ATOM", "ATOMG", "ATOMS", "RED", "REDG", "REDAS"), "atomic"),
    "LDS": "shared_load",
    "STS": "shared_store",
    "LDGSTS": "async_copy",
    "SHFL": "shuffle",
    "BAR": "barrier",
    **dict.fromkeys(("FADD", "FMUL", "FFMA"), "float"),
    **dict.fromkeys(("HADD2", "HMUL2", "HFMA2"), "half"),
    **dict.fromkeys(("DADD", "DMUL", "DFMA"), "double"),
}
_ABSORBED = 0.35
"""A PTX block with less than this part of the best match's weight is not taken to be inside."""
_ANCHOR_WEIGHT = 3.0
_FAR = 1.1
_STEPS = 4
_SLOW = re.compile(r"slowpath|mediumpath|f64_full")
_APART = ("WARPSYNC.COLLECTIVE", "ENDCOLLECTIVE")
"""Of the second copy of an exchange, behind a BRA.DIV, for lanes that do not come together."""
_MOVES = re.compile(r"\s*\w+, -?RZ, RZ,")
"""Operands of a half-precision instruction that only loads a constant."""


@dataclass
class MachineBlock:
    """A basic block of the machine code.

    Attributes:
        opcodes: with modifiers, in order.
        lines: of the source, how many instructions come from each.
        anchors: instructions that stand for one of the PTX, by kind and line.
        targets: labels that it branches to.
        loops: how many loops it is inside.
        slow: whether it belongs to a slow path.
    """

    labels: list[str] = field(default_factory=list)
    opcodes: list[str] = field(default_factory=list)
    lines: Counter[Line] = field(default_factory=Counter)
    anchors: Counter[Anchor] = field(default_factory=Counter)
    targets: list[str] = field(default_factory=list)
    loops: int = 0
    slow: bool = False


class _Places:
    """Follows the listing's places as `simulator.ptx.lines` follows those of PTX."""

    def __init__(self) -> None:
        self._chain: list[tuple[str, int]] = []
        self._complete = True
        self._home = ""

    def add(self, place: tuple[str, int], *, inlined: bool) -> None:
        """A place, from the innermost outwards; the last of a chain is not inlined."""
        if self._complete:
            self._chain = []
        self._chain.append(place)
        self._complete = not inlined
        if self._complete and not self._home:
            self._home = place[0]

    @property
    def current(self) -> Line | None:
        """Where the instructions that follow come from."""
        if not self._chain:
            return None
        own = next((place for place in self._chain if place[0] == self._home), self._chain[0])
        return (*self._chain[0], own[1])


def machine_blocks(listing: str) -> dict[str, list[MachineBlock]]:
    """Reads what `nvdisasm -c -gi` prints: the blocks of each kernel, by mangled name."""
    kernels: dict[str, list[MachineBlock]] = {}
    blocks: list[MachineBlock] = []
    lines = _Places()
    closed = True
    for text in listing.splitlines():
        if section := _FUNCTION.match(text):
            blocks = kernels.setdefault(section["name"], [])
            lines, closed = _Places(), True
        elif place := _LINE.match(text):
            lines.add((place["file"], int(place["line"])), inlined=bool(place["inlined"]))
        elif label := _LABEL.match(text):
            if closed or blocks[-1].opcodes:
                blocks.append(MachineBlock())
            blocks[-1].labels.append(label["label"])
            closed = False
        elif found := _INSTRUCTION.match(text):
            if found["opcode"] == "NOP" and closed:
                continue  # behind the end, to fill a line of the instruction cache
            if closed:
                blocks.append(MachineBlock())
            _add(blocks[-1], found, lines.current)
            closed = found["opcode"].partition(".")[0] in _ENDS
    for blocks in kernels.values():
        _mark(blocks)
    return kernels


def machine_code(built: Built, toolchain: Toolchain) -> dict[str, list[MachineBlock]]:
    """The blocks of every kernel of a library; none where nvdisasm is not installed.

    Raises:
        MachineFault: the scratch directory cannot be written, or nvdisasm cannot be started.
    """
    kernels: dict[str, list[MachineBlock]] = {}
    for listing in listings(built, toolchain, "-gi"):
        kernels |= machine_blocks(listing)
    return kernels


def _add(block: MachineBlock, found: re.Match[str], line: Line | None) -> None:
    opcode = found["opcode"]
    base = opcode.partition(".")[0]
    block.opcodes.append(opcode)
    if base in ("BRA", "CALL", "JMP"):
        block.targets += [target["label"] for target in _TARGET.finditer(found["rest"])]
    if line is not None:
        block.lines[line] += 1
        always = not found["predicate"]
        if base in _ANCHORS and always and not _MOVES.match(found["rest"]):
            block.anchors[_ANCHORS[base], line] += 1


def _mark(blocks: list[MachineBlock]) -> None:
    """Finds loops and slow paths, and takes out the endless loop that ends every kernel."""
    blocks[:] = [
        b for b in blocks if b.opcodes and not (b.opcodes == ["BRA"] and b.targets[0] in b.labels)
    ]
    at = {label: index for index, block in enumerate(blocks) for label in block.labels}
    beyond = slow = False
    for index, block in enumerate(blocks):
        for label in block.labels:
            if "$" in label:
                beyond, slow = True, bool(_SLOW.search(label))
        calls = any(_SLOW.search(target) for target in block.targets)
        # What only comes back from a slow path is part of it.
        returns = index > 0 and blocks[index - 1].slow and not block.labels
        apart = any(opcode.startswith(_APART) for opcode in block.opcodes)
        block.slow = slow or calls or returns or apart
        for target in block.targets:
            if at.get(target, index + 1) <= index and not (beyond or block.slow):
                for inside in blocks[at[target] : index + 1]:
                    inside.loops += 1


def executed_classes(
    machine: Sequence[MachineBlock], ptx: Sequence[ExecutedBlock]
) -> dict[str, float]:
    """Warp instructions that ran, by the class of `sass.instruction_class`."""
    total: dict[str, float] = {}
    for block, times in zip(machine, block_executions(machine, ptx), strict=True):
        for opcode in block.opcodes:
            name = instruction_class(opcode)
            total[name] = total.get(name, 0.0) + times
    return total


def block_executions(machine: Sequence[MachineBlock], ptx: Sequence[ExecutedBlock]) -> list[float]:
    """How often warps ran each block of the machine code."""
    of_line: dict[Line, list[tuple[int, float]]] = {}
    of_anchor: dict[Anchor, list[tuple[int, float]]] = {}
    for number, ran in enumerate(ptx):
        for line, count in ran.lines.items():
            of_line.setdefault(line, []).append((number, count))
        for anchor, share in ran.anchors.items():
            of_anchor.setdefault(anchor, []).append((number, share))
    times: list[float] = []
    for block in machine:
        weights = _weights(block, of_line, of_anchor)
        alike = {n: w for n, w in weights.items() if ptx[n].loops == block.loops} or weights
        best = max(alike, key=lambda n: alike[n]) if alike and not block.slow else None
        if block.slow:
            times.append(0.0)
        elif best is None:
            times.append(times[-1] if times else 0.0)
        else:
            inside = [n for n, weight in alike.items() if weight >= _ABSORBED * alike[best]]
            times.append(float(max(ptx[n].executions for n in inside)))
    return _fitted(machine, ptx, times)


def _weights(
    block: MachineBlock,
    of_line: Mapping[Line, list[tuple[int, float]]],
    of_anchor: Mapping[Anchor, list[tuple[int, float]]],
) -> dict[int, float]:
    """How much of a block comes from each PTX block: a line's instructions shared by their number there."""
    weights: dict[int, float] = {}
    votes: list[tuple[float, list[tuple[int, float]]]] = [
        (count, of_line.get(line, [])) for line, count in block.lines.items()
    ]
    votes += [(_ANCHOR_WEIGHT * n, of_anchor.get(a, [])) for a, n in block.anchors.items()]
    for count, candidates in votes:
        whole = sum(n for _, n in candidates)
        for number, n in candidates:
            weights[number] = weights.get(number, 0.0) + count * n / whole
    return weights


def _fitted(
    machine: Sequence[MachineBlock], ptx: Sequence[ExecutedBlock], times: list[float]
) -> list[float]:
    """Scales blocks until their anchors run as often as those of the PTX, where that is far from so."""
    expected: dict[Anchor, float] = {}
    for ran in ptx:
        for anchor, count in ran.anchors.items():
            expected[anchor] = expected.get(anchor, 0.0) + ran.executions * count
    fitted = list(times)
    for _ in range(_STEPS):
        found: dict[Anchor, float] = {}
        for block, often in zip(machine, fitted, strict=True):
            for anchor, count in block.anchors.items():
                found[anchor] = found.get(anchor, 0.0) + often * count
        for index, block in enumerate(machine):
            ratios = [
                expected[anchor] / found[anchor]
                for anchor, count in block.anchors.items()
                if expected.get(anchor) and found[anchor]
                for _ in range(count)
            ]
            ratio = statistics.median(ratios) if ratios else 1.0
            if not 1 / _FAR < ratio < _FAR:
                fitted[index] *= ratio
    return fitted
