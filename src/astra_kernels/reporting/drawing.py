"""Scales and marks of a chart as SVG text. Colours are the page's: marks carry classes, not colours.

Drawn here rather than by a plotting library: a page must open from disk without scripts, follow the reader's light or
dark setting, and be read aloud, which needs plain SVG with titles.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from xml.etree import ElementTree as Xml


@dataclass(frozen=True)
class Scale:
    """Maps values to pixels, linearly or by logarithm to base 10."""

    low: float
    high: float
    start: float
    """Pixel of `low`."""
    end: float
    log: bool = False

    def __call__(self, value: float) -> float:
        """The pixel of a value; values outside are drawn at the border."""
        low, high, at = (self._map(v) for v in (self.low, self.high, value))
        share = (at - low) / (high - low) if high > low else 0.5
        return self.start + (self.end - self.start) * min(1.0, max(0.0, share))

    def _map(self, value: float) -> float:
        return math.log10(max(value, 1e-12)) if self.log else value

    def ticks(self) -> tuple[float, ...]:
        """Round values inside: powers of ten times 1, 2, 5 (fewer over many decades), or multiples of a round step."""
        return tuple(self._log_ticks() if self.log else self._linear_ticks())

    def _log_ticks(self) -> Iterator[float]:
        decades = range(math.floor(math.log10(self.low)), math.ceil(math.log10(self.high)) + 1)
        factors = (1, 2, 5) if len(decades) <= 3 else (1,)
        for decade in decades:
            for factor in factors:
                value = factor * 10.0**decade
                if self.low <= value <= self.high:
                    yield value

    def _linear_ticks(self) -> Iterator[float]:
        rough = (self.high - self.low) / 5 or 1.0
        power = 10.0 ** math.floor(math.log10(rough))
        step = next(f * power for f in (1, 2, 5, 10) if f * power >= rough * 0.999)
        first = math.ceil(self.low / step - 1e-9)
        yield from (
            round(n * step, 10) for n in range(first, math.floor(self.high / step + 1e-9) + 1)
        )


@dataclass
class Drawing:
    """An SVG picture under construction; y grows downwards."""

    width: float
    height: float
    title: str
    description: str
    """What the picture shows, for those who do not see it."""
    _root: Xml.Element = field(init=False)

    def __post_init__(self) -> None:
        box = f"0 0 {self.width:g} {self.height:g}"
        self._root = Xml.Element("svg", viewBox=box, role="img", xmlns="http://www.w3.org/2000/svg")
        self._root.set("style", f"max-width:{self.width:g}px")
        self._root.set("aria-label", f"{self.title}. {self.description}")

    def line(self, kind: str, start: tuple[float, float], end: tuple[float, float]) -> None:
        """A straight line."""
        (x1, y1), (x2, y2) = start, end
        self._add("line", kind, x1=x1, y1=y1, x2=x2, y2=y2)

    def curve(self, kind: str, points: Sequence[tuple[float, float]]) -> None:
        """A line through points."""
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        self._root.append(Xml.Element("polyline", {"class": kind, "points": path}))

    def dot(self, kind: str, at: tuple[float, float], radius: float, said: str) -> None:
        """A round mark; `said` appears when it is pointed at."""
        self._titled(self._add("circle", kind, cx=at[0], cy=at[1], r=radius), said)

    def square(self, kind: str, at: tuple[float, float], half: float, said: str) -> None:
        """A square mark."""
        x, y = at
        mark = self._add("rect", kind, x=x - half, y=y - half, width=2 * half, height=2 * half)
        self._titled(mark, said)

    def words(self, kind: str, at: tuple[float, float], text: str, anchor: str = "start") -> None:
        """Text; `anchor` is `start`, `middle` or `end`."""
        element = self._add("text", kind, x=at[0], y=at[1])
        element.set("text-anchor", anchor)
        element.text = text

    def svg(self) -> str:
        """The picture as an element of an HTML page."""
        return Xml.tostring(self._root, encoding="unicode")

    def _add(self, tag: str, kind: str, **numbers: float) -> Xml.Element:
        element = Xml.SubElement(self._root, tag, {"class": kind})
        for name, value in numbers.items():
            element.set(name, f"{value:.1f}")
        return element

    @staticmethod
    def _titled(element: Xml.Element, said: str) -> None:
        Xml.SubElement(element, "title").text = said
