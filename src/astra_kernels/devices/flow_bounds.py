"""How often the regions of a control-flow graph can run, where some counts are known.

Counts are of warps, whose lanes may part: a warp runs both sides of a branch that they part at. So what
holds of a block is that it runs no more often than what comes before it together, nor than what comes
after it together; and that it runs no more often than a block that every way leads over.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import inf

from astra_kernels.simulator.control_flow import ControlFlow

_SWEEPS = 50
"""Bounds that grow less by then are as good as they get."""
Bounds = tuple[float, float]


class FlowBounds:
    """The relations of a graph's regions."""

    def __init__(self, flow: ControlFlow) -> None:
        self._flow = flow
        self.region_of = {b: n for n, blocks in enumerate(flow.regions) for b in blocks}
        self._sums = self._neighbours()
        self._pairs = list(self._always())

    def bounds(self, known: Mapping[int, float]) -> list[Bounds]:
        """The least and the most of each region, from the counts of `known` ones.

        Known counts stay as they are, also where they contradict one another.
        """
        number = len(self._flow.regions)
        low = [known.get(n, 0.0) for n in range(number)]
        high = [known.get(n, inf) for n in range(number)]
        for _ in range(_SWEEPS):
            before = (list(low), list(high))
            for small, large in self._pairs:
                if small not in known:
                    high[small] = min(high[small], high[large])
                if large not in known:
                    low[large] = max(low[large], low[small])
            for small, parts in self._sums:
                if small not in known:
                    high[small] = min(high[small], sum(high[p] for p in parts))
                for part in parts:
                    if part not in known:
                        others = sum(high[p] for p in parts if p != part)
                        low[part] = max(low[part], low[small] - others)
            if before == (low, high):
                break
        return [(min(a, b), b) for a, b in zip(low, high, strict=True)]

    def above(self, regions: Sequence[int]) -> int | None:
        """The nearest other region that every way to these leads over; None where they are under none."""
        firsts = [self._flow.regions[n][0] for n in regions]
        common = [
            b
            for b in self._flow.reachable
            if all(self._flow.dominators[f] >> b & 1 for f in firsts)
            and self.region_of[b] not in regions
        ]
        nearest = max(common, key=lambda b: self._flow.dominators[b].bit_count(), default=None)
        return None if nearest is None else self.region_of[nearest]

    def _neighbours(self) -> list[tuple[int, tuple[int, ...]]]:
        """Regions, and those that together run at least as often."""
        flow, end = self._flow, len(self._flow.successors)
        found: dict[tuple[int, tuple[int, ...]], None] = {}
        for block in sorted(flow.reachable):
            for around in (flow.successors[block], flow.predecessors[block] if block else [end]):
                others = [b for b in around if b in flow.reachable]
                if end in around or not others:
                    continue
                parts = tuple(sorted({self.region_of[b] for b in others}))
                if self.region_of[block] not in parts:
                    found[self.region_of[block], parts] = None
        return list(found)

    def _always(self) -> Iterable[tuple[int, int]]:
        """Pairs of which the first runs at most as often: every way to it or from it leads over the second.

        The first must not come round again without the second: one run of that would allow many of this.
        """
        flow = self._flow
        for large, blocks in enumerate(flow.regions):
            for small, (first, *_) in enumerate(flow.regions):
                over = flow.dominators[first] | flow.postdominators[first]
                if small != large and any(
                    over >> b & 1 and first not in flow.repeats_without(b) for b in blocks
                ):
                    yield small, large
