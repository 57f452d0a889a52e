"""Which blocks of the PTX the regions of machine code were made of."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from astra_kernels.devices.machine_code import MachineBlock
from astra_kernels.devices.resemblance import resemblance
from astra_kernels.simulator.control_flow import ControlFlow
from astra_kernels.simulator.executed import ARITHMETIC, Anchor, ExecutedBlock, Line

_ABSORBED = 0.35
"""A PTX block with less than this part of the best match's weight is not taken to be inside."""
_ANCHOR_WEIGHT = 3.0
_Key = TypeVar("_Key")


@dataclass(frozen=True)
class Region:
    """Blocks of machine code that run equally often.

    Attributes:
        blocks: their numbers.
        lines: of the source, how many instructions come from each.
        anchors: instructions that stand for one of the PTX, by kind and line.
        held: the same, and accesses under a predicate: they may be a branch of the PTX.
        depth: how many loops it is inside.
        loop: the innermost one's number.
        slow: whether it calls a slow path.
    """

    blocks: tuple[int, ...]
    lines: Counter[Line]
    anchors: Counter[Anchor]
    held: Counter[Anchor]
    depth: int
    loop: int | None
    slow: bool


def regions_of(machine: Sequence[MachineBlock], flow: ControlFlow) -> list[Region]:
    """Those of the control flow, in its order."""
    found: list[Region] = []
    for blocks in flow.regions:
        members = [machine[block] for block in blocks]
        anchors = _sum(block.anchors for block in members)
        predicated = _sum(block.predicated for block in members)
        certain = Counter({a: n for a, n in predicated.items() if a[0] not in ARITHMETIC})
        found.append(
            Region(
                blocks=blocks,
                lines=_sum(block.lines for block in members),
                anchors=anchors,
                held=anchors + certain,
                depth=flow.depths[blocks[0]],
                loop=flow.innermost[blocks[0]],
                slow=any(block.slow for block in members),
            )
        )
    return found


def _sum(counts: Iterable[Counter[_Key]]) -> Counter[_Key]:
    found: Counter[_Key] = Counter()
    for each in counts:
        found.update(each)
    return found


class Matching:
    """Machine code beside the PTX that it was made of.

    Attributes:
        regions: of the machine code.
        ptx: the blocks of the PTX.
        ptx_flow: of them.
    """

    def __init__(
        self, machine: Sequence[MachineBlock], flow: ControlFlow, ptx: Sequence[ExecutedBlock]
    ) -> None:
        self.regions = regions_of(machine, flow)
        self.ptx = ptx
        self.ptx_flow = ControlFlow([block.successors for block in ptx])
        self._machine = machine
        self._alike = resemblance(machine, flow, ptx, self.ptx_flow)
        self._home = self._alike.argmax(axis=0).tolist()
        self._sizes = np.array([len(block.opcodes) for block in machine])

    def voted(self, number: int) -> float:
        """How often the PTX ran what a region resembles most and, of what is inside it, the most frequent.

        Short branches become predicates: then several blocks of the PTX are in one.
        """
        region = self.regions[number]
        weights = self._weights(region)
        least = _ABSORBED * max(weights.values(), default=0.0)
        inside = [
            n
            for n, weight in weights.items()
            if weight >= least and self._home[n] in region.blocks and self._holds(region, n)
        ]
        blocks = list(region.blocks)
        best = int((self._sizes[blocks] @ self._alike[blocks]).argmax())
        return float(max(self.ptx[n].executions for n in (best, *inside)))

    def alike(self, blocks: Iterable[int], others: Sequence[int]) -> float:
        """How much the block of machine code that resembles one of the PTX most does so."""
        return float(max(self._alike[block, list(others)].max() for block in blocks))

    def splits(self) -> dict[int, float]:
        """How often lanes parted at the end of a block of machine code.

        A branch is where its source lines are. Of several, the last one ends the block; the others have
        become predicates.
        """
        found: dict[int, float] = {}
        for number, ran in enumerate(self.ptx):
            there = [n for n, b in enumerate(self._machine) if b.lines.keys() & ran.lines.keys()]
            if len(ran.successors) > 1 and there:
                home = max(there, key=lambda n: self._alike[n, number])
                if len(self._machine[home].successors) > 1:
                    found[home] = float(ran.splits)
        return found

    def expected(self, anchor: Anchor) -> float:
        """How often the PTX ran the instructions of a kind and line."""
        return sum(ran.executions * ran.anchors.get(anchor, 0.0) for ran in self.ptx)

    def _weights(self, region: Region) -> dict[int, float]:
        """How much of a region comes from each PTX block: a line's instructions shared by their number there."""
        weights: dict[int, float] = {}
        for line, count in region.lines.items():
            _share(weights, float(count), [b.lines.get(line, 0) for b in self.ptx])
        for anchor, count in region.anchors.items():
            _share(weights, _ANCHOR_WEIGHT * count, [b.anchors.get(anchor, 0.0) for b in self.ptx])
        alike = {n: w for n, w in weights.items() if self.ptx_flow.depths[n] == region.depth}
        return alike or weights

    def _holds(self, region: Region, block: int) -> bool:
        """Whether a region has the accesses and barriers of a PTX block, as it must when that is inside."""
        certain = [a for a in self.ptx[block].anchors if a[0] not in ARITHMETIC]
        return all(anchor in region.held for anchor in certain)


def _share(weights: dict[int, float], count: float, shares: Sequence[float]) -> None:
    whole = sum(shares)
    for number, share in enumerate(shares):
        if share:
            weights[number] = weights.get(number, 0.0) + count * share / whole
