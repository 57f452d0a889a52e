"""Basic blocks of machine code, and where control goes from each: what `nvdisasm -c -gi` prints."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field

from astra_kernels.languages.cuda.outcome import Built
from astra_kernels.languages.cuda.sass import listings
from astra_kernels.languages.cuda.toolchain import Toolchain
from astra_kernels.simulator.executed import Anchor, Line, access

_FUNCTION = re.compile(r"\s*\.section\s+\.text\.(?P<name>[^,\s]+)")
_LINE = re.compile(r'\s*//## File "(?P<file>[^"]+)", line (?P<line>\d+)(?P<inlined> inlined at)?')
_LABEL = re.compile(r"(?P<label>[.$][\w.$]+):")
_INSTRUCTION = re.compile(
    r"\s*/\*[0-9a-f]{4,}\*/\s+(?P<predicate>@!?U?P[T\d]\s+)?(?P<opcode>[A-Z][\w.]*)(?P<rest>[^;]*)"
)
_TARGET = re.compile(r"`\((?P<label>[^)]+)\)")
_CONDITION = re.compile(r"\s*!?U?P\d,")
"""The second predicate of a branch."""
_ENDS = ("BRA", "BRX", "JMP", "EXIT", "RET", "CALL", "BSYNC")
_ANCHORS = {
    **dict.fromkeys(("LDG", "LD"), "global_load"),
    **dict.fromkeys(("STG", "ST"), "global_store"),
    **dict.fromkeys(("ATOM", "ATOMG", "ATOMS", "RED", "REDG", "REDAS"), "atomic"),
    "LDS": "shared_load",
    "STS": "shared_store",
    "LDGSTS": "async_copy",
    "LDSM": "matrix_load",
    "STSM": "matrix_store",
    "MOVM": "matrix_transpose",
    "SHFL": "shuffle",
    "BAR": "barrier",
    **dict.fromkeys(("FADD", "FMUL", "FFMA"), "float"),
    **dict.fromkeys(("HADD2", "HMUL2", "HFMA2"), "half"),
    **dict.fromkeys(("DADD", "DMUL", "DFMA"), "double"),
}
_ACCESSES = ("global_load", "global_store", "shared_load", "shared_store")
_WIDTH = re.compile(r"\.[US]?(8|16|64|128)(?=\.|$)")
"""Bits of an access; without it, 32."""
_SLOW = re.compile(r"slowpath|mediumpath|f64_full")
_MOVES = re.compile(r"\s*\w+, -?RZ, RZ,")
"""Operands of a half-precision instruction that only loads a constant."""


@dataclass
class MachineBlock:
    """A basic block of the machine code.

    Attributes:
        labels: its names.
        opcodes: with modifiers, in order.
        lines: of the source, how many instructions come from each.
        anchors: instructions that stand for one of the PTX, by kind and line.
        predicated: such instructions under a predicate: they may be a branch of the PTX.
        targets: labels that it branches to.
        joins: labels of where lanes that part in it or behind it have come together again.
        falls: whether control may go on to the block behind it.
        slow: whether it calls a slow path.
        successors: numbers of the blocks that may follow; the number of blocks stands for the end.
    """

    labels: list[str] = field(default_factory=list)
    opcodes: list[str] = field(default_factory=list)
    lines: Counter[Line] = field(default_factory=Counter)
    anchors: Counter[Anchor] = field(default_factory=Counter)
    predicated: Counter[Anchor] = field(default_factory=Counter)
    targets: list[str] = field(default_factory=list)
    joins: list[str] = field(default_factory=list)
    falls: bool = True
    slow: bool = False
    successors: tuple[int, ...] = ()


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
    """The blocks of each kernel of a listing, by mangled name."""
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
        _link(blocks)
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
    opcode, rest = found["opcode"], found["rest"]
    base = opcode.partition(".")[0]
    block.opcodes.append(opcode)
    always = not found["predicate"]
    if line is not None:
        block.lines[line] += 1
        if base in _ANCHORS and not _MOVES.match(rest):
            (block.anchors if always else block.predicated)[_kind(opcode), line] += 1
    targets = [target["label"] for target in _TARGET.finditer(rest)]
    if base == "BSSY":
        block.joins += targets
    elif base == "CALL":
        block.slow = any(_SLOW.search(target) for target in targets)
        block.targets = [] if block.slow else targets
    elif base in ("BRA", "BRX", "JMP") and opcode != "BRA.DIV":
        # A BRA.DIV leads to a copy of an exchange for lanes that do not come together: taken as never so.
        block.targets = targets
        block.falls = not always or bool(_CONDITION.match(rest))
    elif base in ("EXIT", "RET"):
        block.falls = not always


def _kind(opcode: str) -> str:
    kind = _ANCHORS[opcode.partition(".")[0]]
    width = _WIDTH.search(opcode)
    return access(kind, int(width[1]) // 8 if width else 4) if kind in _ACCESSES else kind


def _link(blocks: list[MachineBlock]) -> None:
    """Says which blocks follow which, and takes out the endless loop that ends every kernel."""
    blocks[:] = [
        b for b in blocks if b.opcodes and not (b.opcodes == ["BRA"] and b.targets[0] in b.labels)
    ]
    at = {label: index for index, block in enumerate(blocks) for label in block.labels}
    for index, block in enumerate(blocks):
        following = [at[target] for target in block.targets if target in at]
        if block.falls:
            following.append(index + 1)
        if block.opcodes[-1].partition(".")[0] in ("EXIT", "RET") or not following:
            following.append(len(blocks))
        block.successors = tuple(dict.fromkeys(following))
