"""Dominators, loops and regions of a control-flow graph: what must run equally often.

Terms as in Cooper, Harvey and Kennedy, "A Simple, Fast Dominance Algorithm" (2001). Sets of blocks are
the bits of integers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

Successors = Sequence[Sequence[int]]
"""Of each block; the number of blocks stands for the end."""


@dataclass(frozen=True)
class Loop:
    """A natural loop.

    Attributes:
        header: The only block that it is entered by.
        body: All its blocks, those of inner loops included.
    """

    header: int
    body: frozenset[int]


@dataclass(frozen=True)
class ControlFlow:
    """A control-flow graph that is entered at block 0.

    Attributes:
        successors: Of each block.
    """

    successors: Successors

    @cached_property
    def predecessors(self) -> list[list[int]]:
        """Of each block, and of the end."""
        found: list[list[int]] = [[] for _ in range(len(self.successors) + 1)]
        for block, following in enumerate(self.successors):
            for other in dict.fromkeys(following):
                found[other].append(block)
        return found

    @cached_property
    def reachable(self) -> frozenset[int]:
        """Blocks that control can come to."""
        seen, waiting = {0}, [0]
        while waiting:
            for other in self.successors[waiting.pop()]:
                if other < len(self.successors) and other not in seen:
                    seen.add(other)
                    waiting.append(other)
        return frozenset(seen)

    @cached_property
    def dominators(self) -> list[int]:
        """Of each block the bits of those on every way to it, itself included."""
        return _sets(self.predecessors[:-1], self.reachable, {0})

    @cached_property
    def postdominators(self) -> list[int]:
        """Of each block the bits of those on every way from it to the end, itself included."""
        end = len(self.successors)
        inner = [[o for o in following if o < end] for following in self.successors]
        last = {b for b in self.reachable if end in self.successors[b] or not inner[b]}
        return _sets(inner, self.reachable, last)

    @cached_property
    def loops(self) -> list[Loop]:
        """Natural loops, by header; those of one header are one."""
        bodies: dict[int, set[int]] = {}
        for block in sorted(self.reachable):
            for header in self.successors[block]:
                if header < len(self.successors) and self._back(block, header):
                    bodies.setdefault(header, {header}).update(self._body(header, block))
        return [Loop(header, frozenset(body)) for header, body in sorted(bodies.items())]

    def _body(self, header: int, latch: int) -> set[int]:
        body, waiting = {header}, [latch]
        while waiting:
            block = waiting.pop()
            if block not in body and block in self.reachable:
                body.add(block)
                waiting += self.predecessors[block]
        return body

    def _back(self, block: int, header: int) -> bool:
        return bool(self.dominators[block] >> header & 1)

    def repeats_without(self, block: int) -> frozenset[int]:
        """Other blocks that can come back to themselves without going through this one."""
        if block not in self._repeats:
            end = len(self.successors)
            left = sorted(self.reachable - {block})
            edges = {b: [o for o in self.successors[b] if o not in (block, end)] for b in left}
            self._repeats[block] = frozenset(_cyclic(edges))
        return self._repeats[block]

    @cached_property
    def _repeats(self) -> dict[int, frozenset[int]]:
        return {}

    @cached_property
    def innermost(self) -> list[int | None]:
        """Of each block the number of the smallest loop around it."""
        found: list[int | None] = [None] * len(self.successors)
        by_size = sorted(range(len(self.loops)), key=lambda n: -len(self.loops[n].body))
        for number in by_size:
            for block in self.loops[number].body:
                found[block] = number
        return found

    @cached_property
    def depths(self) -> list[int]:
        """In how many loops each block is."""
        return [sum(b in loop.body for loop in self.loops) for b in range(len(self.successors))]

    @cached_property
    def regions(self) -> list[tuple[int, ...]]:
        """Reachable blocks in groups that every warp runs equally often.

        Two blocks are in one group when every way to the second leads over the first, every way from the
        first leads over the second, and neither comes round again without the other. Lanes that part in between have come
        together again, or the warp runs both parts: once each.
        """
        groups: list[list[int]] = []
        for block in sorted(self.reachable, key=lambda b: self.dominators[b].bit_count()):
            for group in groups:
                if self._equal(group[0], block):
                    group.append(block)
                    break
            else:
                groups.append([block])
        return [tuple(group) for group in groups]

    def _equal(self, first: int, second: int) -> bool:
        return bool(
            self.dominators[second] >> first & 1
            and self.postdominators[first] >> second & 1
            and first not in self.repeats_without(second)
            and second not in self.repeats_without(first)
        )


def _cyclic(edges: Mapping[int, Sequence[int]]) -> set[int]:
    """Blocks on cycles: those of S. R. Kosaraju's components that have an edge inside."""
    order: list[int] = []
    seen: set[int] = set()
    for start in edges:
        stack = [(start, iter(edges[start]))] if start not in seen else []
        seen.add(start)
        while stack:
            block, following = stack[-1]
            other = next((o for o in following if o not in seen), None)
            if other is None:
                order.append(block)
                stack.pop()
            else:
                seen.add(other)
                stack.append((other, iter(edges[other])))
    before: dict[int, list[int]] = {block: [] for block in edges}
    for block, others in edges.items():
        for other in others:
            before[other].append(block)
    component: dict[int, int] = {}
    for start in reversed(order):
        waiting = [start]
        while waiting:
            block = waiting.pop()
            if block not in component:
                component[block] = start
                waiting += before[block]
    return {b for b in edges if any(component[o] == component[b] for o in before[b])}


def _sets(before: Successors, reachable: frozenset[int], starts: set[int]) -> list[int]:
    """The largest solution of: a block, and what all blocks before it have in common."""
    everything = (1 << len(before)) - 1
    sets = [1 << b if b in starts else everything for b in range(len(before))]
    changed = True
    while changed:
        changed = False
        for block in reachable - starts:
            common = everything
            for other in before[block]:
                if other in reachable:
                    common &= sets[other]
            common |= 1 << block
            changed |= common != sets[block]
            sets[block] = common
    return sets
