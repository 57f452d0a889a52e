"""How often the copies of a loop's body run that unrolling makes.

ptxas makes of one loop a wide one, whose body holds several turns, and narrower copies for the turns that
are left: loops, or straight code that runs once. What a warp has to do in all is known; wide copies take
all they can, as compiled loops do.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import floor

from astra_kernels.simulator.control_flow import ControlFlow
from astra_kernels.simulator.executed import ARITHMETIC, Anchor, ExecutedBlock

_ROUNDING = 1e-6


@dataclass(frozen=True)
class Copy:
    """Code that does a loop's work.

    Attributes:
        turns: of the loop, in one run of it.
        loops: whether it can run several times in a row.
    """

    turns: float
    loops: bool


@dataclass(frozen=True)
class Part:
    """Code of the PTX that does a loop's work.

    Attributes:
        copy: how wide it is.
        blocks: where it is.
        executions: how many warps ran it.
    """

    copy: Copy
    blocks: tuple[int, ...]
    executions: float


@dataclass(frozen=True)
class Work:
    """Loops of the PTX that came from one.

    Attributes:
        anchors: how many of each are in one turn.
        parts: the PTX has; ptxas may make others of them.
        entries: how often a warp came to it.
        depth: how many loops a turn is inside.
    """

    anchors: Mapping[Anchor, float]
    parts: tuple[Part, ...]
    entries: float
    depth: int

    @property
    def turns(self) -> float:
        """That warps made, in all."""
        return sum(part.copy.turns * part.executions for part in self.parts)


def runs(copies: Sequence[Copy], work: Work) -> list[float]:
    """How often each copy runs; what no copy fits is the narrowest one's.

    Warps are taken to make the average number of turns, rounded up or down. Copies as wide as one another
    share their work.
    """
    if not work.turns or not work.entries:
        return [0.0] * len(copies)
    widths = sorted({copy.turns for copy in copies}, reverse=True)
    tiers = [(w, any(c.loops for c in copies if c.turns == w)) for w in widths]
    average = work.turns / work.entries
    fewer = floor(average + _ROUNDING)
    more = max(average - fewer, 0.0)
    low, high = _greedy(tiers, fewer), _greedy(tiers, fewer + 1)
    of_width = {
        width: work.entries * ((1 - more) * a + more * b)
        for (width, _), a, b in zip(tiers, low, high, strict=True)
    }
    done = sum(width * times for width, times in of_width.items())
    of_width[widths[-1]] += max(work.turns - done, 0.0) / widths[-1]
    alike = [sum(c.turns == copy.turns for c in copies) for copy in copies]
    return [of_width[copy.turns] / n for copy, n in zip(copies, alike, strict=True)]


def _greedy(tiers: Sequence[tuple[float, bool]], turns: float) -> list[int]:
    """How often each width, the widest first, runs for so many turns."""
    found: list[int] = []
    for width, loops in tiers:
        times = floor(turns / width + _ROUNDING)
        found.append(times if loops else min(times, 1))
        turns -= found[-1] * width
    return found


def turns_of(anchors: Mapping[Anchor, float], work: Mapping[Anchor, float]) -> float:
    """How many turns code does that has these anchors; 0 when it has none of the loop's."""
    chosen = [a for a in work if a[0] not in ARITHMETIC] or list(work)
    ratios = [anchors[a] / work[a] for a in chosen if anchors.get(a)]
    return statistics.median(ratios) if ratios else 0.0


def loop_works(ptx: Sequence[ExecutedBlock], flow: ControlFlow) -> list[Work]:
    """The loops of a kernel that have anchors in every turn; those that have some in common are one."""
    regions = {b: blocks for blocks in flow.regions for b in blocks}
    always = [_anchors(ptx, regions[loop.header]) for loop in flow.loops]
    families: list[list[int]] = []
    for number in range(len(flow.loops)):
        joined = [f for f in families if any(always[n].keys() & always[number] for n in f)]
        families = [f for f in families if f not in joined]
        families.append([*(n for f in joined for n in f), number])
    return [_work(ptx, flow, f, always[f[0]]) for f in families if always[f[0]]]


def _work(
    ptx: Sequence[ExecutedBlock],
    flow: ControlFlow,
    family: Sequence[int],
    anchors: Mapping[Anchor, float],
) -> Work:
    found: list[Part] = []
    entries = 0.0
    headers = {flow.loops[n].header: flow.loops[n] for n in family}
    for blocks in flow.regions:
        times = float(max(ptx[b].executions for b in blocks))
        turns = turns_of(_anchors(ptx, blocks), anchors)
        loop = next((headers[b] for b in blocks if b in headers), None)
        if not turns:
            continue
        found.append(Part(Copy(turns, loop is not None), blocks, times))
        if loop is not None:
            outside = [b for b in flow.predecessors[loop.header] if b not in loop.body]
            times = min(times, sum(ptx[b].executions for b in outside))
        entries = max(entries, times)
    unit = min(part.copy.turns for part in found)
    parts = (Part(Copy(p.copy.turns / unit, p.copy.loops), p.blocks, p.executions) for p in found)
    depth = min(flow.depths[header] for header in headers)
    return Work({a: n * unit for a, n in anchors.items()}, tuple(parts), entries, depth)


def _anchors(ptx: Sequence[ExecutedBlock], blocks: Sequence[int]) -> dict[Anchor, float]:
    found: dict[Anchor, float] = {}
    for block in blocks:
        for anchor, count in ptx[block].anchors.items():
            found[anchor] = found.get(anchor, 0.0) + count
    return found
