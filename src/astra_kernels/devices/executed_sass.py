"""How often each class of machine instruction ran, from the code itself and a simulated launch's counts.

The simulator runs PTX; ptxas makes other instructions of it. Here the machine code's regions (blocks that
every warp runs equally often, `simulator/control_flow.py`) take their counts from the PTX. Nothing is
fitted to a profiler. In order of how far each is to be trusted:

- the first region runs once for every warp; a slow path of a division or a root never;
- the copies of an unrolled loop share its turns (`unrolled_loops.py`);
- loads, stores, exchanges, barriers and plain float arithmetic run as often as those of the same source
  line did in the PTX, in all regions together;
- any other region takes the count of the PTX block that most of its source lines are in, of those that
  the flow of control allows (`flow_bounds.py`).
"""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from astra_kernels.devices.flow_bounds import Bounds, FlowBounds
from astra_kernels.devices.machine_code import MachineBlock
from astra_kernels.devices.resemblance import resemblance
from astra_kernels.devices.unrolled_loops import Copy, loop_works, runs, turns_of
from astra_kernels.languages.cuda.sass import instruction_class
from astra_kernels.simulator.control_flow import ControlFlow
from astra_kernels.simulator.executed import ARITHMETIC, Anchor, ExecutedBlock, Line

_ABSORBED = 0.35
"""A PTX block with less than this part of the best match's weight is not taken to be inside."""
_ANCHOR_WEIGHT = 3.0
_FAR = 1.1
_STEPS = 4


@dataclass(frozen=True)
class Region:
    """Blocks of machine code that run equally often.

    Attributes:
        lines: of the source, how many instructions come from each.
        anchors: instructions that stand for one of the PTX, by kind and line.
        held: the same, and those under a predicate; of arithmetic, what is not predicated.
        blocks: their numbers.
        depth: how many loops it is inside.
        loop: the innermost one's number.
        slow: whether it calls a slow path.
    """

    blocks: tuple[int, ...]
    lines: Mapping[Line, int]
    anchors: Mapping[Anchor, int]
    held: Mapping[Anchor, int]
    depth: int
    loop: int | None
    slow: bool


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
    """How often warps ran each block of the machine code; what nothing leads to never ran."""
    flow = ControlFlow([block.successors for block in machine])
    found = _Estimate(machine, flow, ptx).counts()
    times = [0.0] * len(machine)
    for blocks, count in zip(flow.regions, found, strict=True):
        for block in blocks:
            times[block] = count
    return times


def _region(machine: Sequence[MachineBlock], flow: ControlFlow, blocks: tuple[int, ...]) -> Region:
    lines: Counter[Line] = Counter()
    anchors: Counter[Anchor] = Counter()
    held: Counter[Anchor] = Counter()
    for block in blocks:
        lines.update(machine[block].lines)
        anchors.update(machine[block].anchors)
        held.update(machine[block].anchors)
        held.update(
            {a: n for a, n in machine[block].predicated.items() if a[0] not in ARITHMETIC}
        )
    slow = any(machine[block].slow for block in blocks)
    first = blocks[0]
    return Region(blocks, lines, anchors, held, flow.depths[first], flow.innermost[first], slow)


class _Estimate:
    """The counts of a kernel's regions, found one kind after the other."""

    def __init__(
        self, machine: Sequence[MachineBlock], flow: ControlFlow, ptx: Sequence[ExecutedBlock]
    ) -> None:
        regions = [_region(machine, flow, blocks) for blocks in flow.regions]
        self._regions = regions
        self._relations = FlowBounds(flow)
        self._ptx = ptx
        self._flow = ControlFlow([block.successors for block in ptx])
        self._of_line: dict[Line, list[tuple[int, float]]] = {}
        self._of_anchor: dict[Anchor, list[tuple[int, float]]] = {}
        for number, ran in enumerate(ptx):
            for line, count in ran.lines.items():
                self._of_line.setdefault(line, []).append((number, count))
            for anchor, share in ran.anchors.items():
                self._of_anchor.setdefault(anchor, []).append((number, share))
        alike = resemblance(machine, flow, ptx, self._flow)
        sizes = np.array([len(block.opcodes) for block in machine])
        self._alike = np.array([sizes[list(r.blocks)] @ alike[list(r.blocks)] for r in regions])
        self._home = alike.argmax(axis=0)
        self._weights = [self._weigh(region) for region in regions]
        self._known: dict[int, float] = {0: float(ptx[0].executions)}
        self._known |= {n: 0.0 for n, region in enumerate(regions) if region.slow}

    def counts(self) -> list[float]:
        """Of every region."""
        scale = self._unroll()
        self._anchor(scale)
        bounds = self._relations.bounds(self._known)
        for number in range(len(self._regions)):
            if number not in self._known:
                loop = self._regions[number].loop
                self._known[number] = self._allowed(number, bounds[number], scale.get(loop, 1.0))
                bounds = self._relations.bounds(self._known)
        return [self._known[number] for number in range(len(self._regions))]

    def _weigh(self, region: Region) -> dict[int, float]:
        """How much of a region comes from each PTX block: a line's instructions shared by their number there."""
        weights: dict[int, float] = {}
        votes = [(count, self._of_line.get(line, [])) for line, count in region.lines.items()]
        votes += [
            (_ANCHOR_WEIGHT * n, self._of_anchor.get(a, [])) for a, n in region.anchors.items()
        ]
        for count, candidates in votes:
            whole = sum(n for _, n in candidates)
            for number, n in candidates:
                weights[number] = weights.get(number, 0.0) + count * n / whole
        alike = {n: w for n, w in weights.items() if self._flow.depths[n] == region.depth}
        return alike or weights

    def _unroll(self) -> dict[int | None, float]:
        """Counts of the loops' bodies; how much less often each loop turns than that of the PTX."""
        scale: dict[int | None, float] = {}
        for work in loop_works(self._ptx, self._flow):
            members: list[int] = []
            copies: list[Copy] = []
            for number, region in enumerate(self._regions):
                turns = turns_of(region.held, work.anchors)
                if turns and number not in self._known:
                    members.append(number)
                    copies.append(Copy(turns, region.depth >= work.depth))
            for number, times in zip(members, runs(copies, work), strict=True):
                self._known[number] = times
                if self._regions[number].depth >= work.depth and work.turns:
                    scale[self._regions[number].loop] = times / work.turns
        return scale

    def _anchor(self, scale: Mapping[int | None, float]) -> None:
        """Counts of other regions with anchors: their votes, scaled until the anchors run as often as in the PTX."""
        chosen = [n for n, r in enumerate(self._regions) if r.anchors and n not in self._known]
        times = dict(self._known)
        for number in chosen:
            times[number] = self._voted(number) * scale.get(self._regions[number].loop, 1.0)
        for _ in range(_STEPS):
            found: dict[Anchor, float] = {}
            for number, often in times.items():
                region = self._regions[number]
                for anchor, count in region.held.items():
                    found[anchor] = found.get(anchor, 0.0) + often * count
            for number in chosen:
                anchors = self._regions[number].anchors
                there = [a for a in anchors if self._of_anchor.get(a) and found[a]]
                ratios = [
                    self._expected(anchor) / found[anchor]
                    for anchor in [a for a in there if a[0] not in ARITHMETIC] or there
                    for _ in range(anchors[anchor])
                ]
                ratio = statistics.median(ratios) if ratios else 1.0
                if not 1 / _FAR < ratio < _FAR:
                    times[number] *= ratio
        self._known |= {number: times[number] for number in chosen}

    def _expected(self, anchor: Anchor) -> float:
        return sum(self._ptx[n].executions * share for n, share in self._of_anchor[anchor])

    def _voted(self, number: int) -> float:
        weights = self._weights[number]
        least = _ABSORBED * max(weights.values(), default=0.0)
        blocks = self._regions[number].blocks
        inside = [n for n, w in weights.items() if w >= least and self._home[n] in blocks]
        best = int(self._alike[number].argmax())
        return float(max(self._ptx[n].executions for n in (best, *inside)))

    def _allowed(self, number: int, bounds: Bounds, scale: float) -> float:
        low, high = bounds
        voted = self._voted(number) * scale
        return max(low, min(voted, high))
