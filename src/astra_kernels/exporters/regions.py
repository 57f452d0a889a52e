"""Where the new kernel is called: the sizes at which a run confirmed a win, and nothing between a win and a non-win.

Every axis but one has an exact value; the one that ranges furthest goes from one confirmed win to the next,
as long as nothing that was timed between them is no win.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

Sizes = Mapping[str, int]


@dataclass(frozen=True)
class Timed:
    """One timed workload: its sizes, and whether it is a win."""

    axes: Sizes
    win: bool


@dataclass(frozen=True)
class Region:
    """Sizes at which the new kernel is called."""

    exact: tuple[tuple[str, int], ...]
    """All axes but the ranging one."""
    axis: str
    """The ranging one; empty where there is none."""
    low: int
    high: int
    tested: tuple[int, ...]
    """The sizes of the ranging axis that were timed, in order; all are wins."""

    def holds(self, axes: Sizes) -> bool:
        """Whether these sizes lie inside."""
        inside = not self.axis or self.low <= axes[self.axis] <= self.high
        return inside and all(axes[name] == size for name, size in self.exact)

    def sizes(self, size: int) -> dict[str, int]:
        """All axes, with this size of the ranging one."""
        return {**dict(self.exact), **({self.axis: size} if self.axis else {})}

    def __str__(self) -> str:
        parts = [f"{name} = {size}" for name, size in self.exact]
        if self.axis and self.low == self.high:
            parts.append(f"{self.axis} = {self.low}")
        elif self.axis:
            parts.append(f"{self.low} <= {self.axis} <= {self.high}")
        return ", ".join(parts) or "always"


def ranging_axis(timed: Iterable[Timed]) -> str:
    """The axis whose largest timed size is the largest multiple of its smallest; "" without axes."""
    sizes: dict[str, list[int]] = {}
    for workload in timed:
        for name, size in workload.axes.items():
            sizes.setdefault(name, []).append(size)

    def extent(name: str) -> tuple[float, int]:
        found = sizes[name]
        return max(found) / max(min(found), 1), len(set(found))

    return max(sizes, key=extent, default="")


def regions(timed: tuple[Timed, ...]) -> tuple[Region, ...]:
    """The regions of a run's timed workloads; none without a win.

    Sizes that were timed with several values count as a win if all of them are.
    """
    axis = ranging_axis(timed)
    lines: dict[tuple[tuple[str, int], ...], dict[int, bool]] = {}
    for workload in timed:
        exact = tuple((n, s) for n, s in sorted(workload.axes.items()) if n != axis)
        line = lines.setdefault(exact, {})
        size = workload.axes.get(axis, 0)
        line[size] = line.get(size, True) and workload.win
    found: list[Region] = []
    for exact, line in sorted(lines.items()):
        run: list[int] = []
        for size in sorted(line):
            if line[size]:
                run.append(size)
            elif run:
                found.append(Region(exact, axis, run[0], run[-1], tuple(run)))
                run = []
        if run:
            found.append(Region(exact, axis, run[0], run[-1], tuple(run)))
    return tuple(found)
