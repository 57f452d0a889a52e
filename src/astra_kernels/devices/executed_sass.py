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
from dataclasses import astuple, dataclass

import numpy as np

from astra_kernels.devices.flow_bounds import Bounds, FlowBounds
from astra_kernels.devices.machine_code import MachineBlock
from astra_kernels.devices.reconvergence import arrivals
from astra_kernels.devices.resemblance import resemblance
from astra_kernels.devices.unrolled_loops import Copy, Part, Work, loop_works, runs, turns_of
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
    estimate = _Estimate(machine, flow, ptx)
    found = estimate.counts()
    times = [0.0] * len(machine)
    for blocks, count in zip(flow.regions, found, strict=True):
        for block in blocks:
            times[block] = count
    for block, count in arrivals(machine, flow, times, estimate.splits()).items():
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
        held.update({a: n for a, n in machine[block].predicated.items() if a[0] not in ARITHMETIC})
    slow = any(machine[block].slow for block in blocks)
    first = blocks[0]
    return Region(blocks, lines, anchors, held, flow.depths[first], flow.innermost[first], slow)


class _Estimate:
    """The counts of a kernel's regions, found one kind after the other."""

    def __init__(
        self, machine: Sequence[MachineBlock], flow: ControlFlow, ptx: Sequence[ExecutedBlock]
    ) -> None:
        regions = [_region(machine, flow, blocks) for blocks in flow.regions]
        self._machine = machine
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
        self._blocks_alike = alike = resemblance(machine, flow, ptx, self._flow)
        sizes = np.array([len(block.opcodes) for block in machine])
        self._alike = np.array([sizes[list(r.blocks)] @ alike[list(r.blocks)] for r in regions])
        self._sizes = [sum(sizes[list(r.blocks)]) for r in regions]
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

    def splits(self) -> dict[int, float]:
        """How often lanes parted at the end of a block of machine code.

        A branch is where its source lines are. Of several, the last one ends the block; the others have
        become predicates.
        """
        found: dict[int, float] = {}
        for number, ran in enumerate(self._ptx):
            there = [n for n, b in enumerate(self._machine) if b.lines.keys() & ran.lines.keys()]
            if len(ran.successors) > 1 and there:
                home = max(there, key=lambda n: self._blocks_alike[n, number])
                if len(self._machine[home].successors) > 1:
                    found[home] = float(ran.splits)
        return found

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
            groups = self._copies(work)
            copies = list(groups.values())
            if sorted(map(astuple, copies)) == sorted(astuple(part.copy) for part in work.parts):
                times = self._paired(groups, work)
            else:
                times = dict(zip(groups, runs(copies, work), strict=True))
                self._enter(groups, work)
            for members, often in times.items():
                self._known |= dict.fromkeys(members, often)
                if work.turns and groups[members].loops:
                    scale[self._regions[members[0]].loop] = often / work.turns
        return scale

    def _copies(self, work: Work) -> dict[tuple[int, ...], Copy]:
        """Groups of regions that do a loop's work: those of one loop together, others each by itself."""
        groups: dict[tuple[int, int], list[int]] = {}
        for number, region in enumerate(self._regions):
            if number not in self._known and turns_of(region.held, work.anchors):
                loops = region.depth >= work.depth and region.loop is not None
                key = (0, region.loop or 0) if loops else (1, number)
                groups.setdefault(key, []).append(number)
        found: dict[tuple[int, ...], Copy] = {}
        for (straight, _), members in groups.items():
            held: Counter[Anchor] = Counter()
            for number in members:
                held.update(self._regions[number].held)
            found[tuple(members)] = Copy(turns_of(held, work.anchors), not straight)
        return found

    def _paired(
        self, groups: Mapping[tuple[int, ...], Copy], work: Work
    ) -> dict[tuple[int, ...], float]:
        """ptxas kept the loops: each group runs as often as the part of the PTX that resembles it most."""
        scores = [
            (self._resemble(members, part), members, index)
            for members, copy in groups.items()
            for index, part in enumerate(work.parts)
            if part.copy == copy
        ]
        found: dict[tuple[int, ...], float] = {}
        taken: set[int] = set()
        for _, members, index in sorted(scores, reverse=True):
            if members not in found and index not in taken:
                found[members] = work.parts[index].executions
                taken.add(index)
        return found

    def _resemble(self, members: Sequence[int], part: Part) -> float:
        """Of whole loops, or of straight code; where they are alike, their surroundings decide."""
        loop = self._regions[members[0]].loop
        theirs = self._flow.innermost[part.blocks[0]]
        ours: Counter[Line | Anchor] = Counter()
        there: Counter[Line | Anchor] = Counter()
        for number, region in enumerate(self._regions):
            if number in members or (part.copy.loops and region.loop == loop):
                ours.update(region.lines)
                ours.update(region.held)
        for block, ran in enumerate(self._ptx):
            if block in part.blocks or (part.copy.loops and self._flow.innermost[block] == theirs):
                there.update(ran.lines)
                there.update(ran.anchors)
        alike = sum((ours & there).values()) / max(sum((ours | there).values()), 1)
        surroundings = max(self._alike[n, b] / self._sizes[n] for n in members for b in part.blocks)
        return alike + float(surroundings)

    def _enter(self, groups: Mapping[tuple[int, ...], Copy], work: Work) -> None:
        """Where control comes to before it is spread over several copies, it comes once an entry."""
        if len(groups) < 2:
            return
        above = self._relations.above([n for members in groups for n in members])
        if above is not None and above not in self._known and not self._regions[above].anchors:
            self._known[above] = work.entries

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
        inside = [
            n
            for n, w in weights.items()
            if w >= least and self._home[n] in blocks and self._holds(number, n)
        ]
        best = int(self._alike[number].argmax())
        return float(max(self._ptx[n].executions for n in (best, *inside)))

    def _holds(self, number: int, block: int) -> bool:
        """Whether a region has the accesses and barriers of a PTX block, as it must when that is inside."""
        certain = [a for a in self._ptx[block].anchors if a[0] not in ARITHMETIC]
        return all(anchor in self._regions[number].held for anchor in certain)

    def _allowed(self, number: int, bounds: Bounds, scale: float) -> float:
        low, high = bounds
        voted = self._voted(number) * scale
        return max(low, min(voted, high))
