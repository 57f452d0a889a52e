"""What a rewrite takes and gives: programs, parameter points, and two outcomes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Protocol


@dataclass(frozen=True)
class Program:
    """A candidate's sources, as a rewrite sees them.

    Attributes:
        sources: Text of every project file by path, headers included.
        entry: The host function that callers use, as ``"path::name"``.
        multiples: Number that an integer argument of the entry is known to be a multiple of, by
            argument name: the definition's promise, never a guess from the workloads.
    """

    sources: Mapping[str, str]
    entry: str
    multiples: Mapping[str, int] = field(default_factory=dict)

    def with_sources(self, sources: Mapping[str, str]) -> Program:
        """Returns the same program with other texts."""
        return replace(self, sources=dict(sources))


@dataclass(frozen=True, order=True)
class ParameterPoint:
    """One point of a rewrite's search space: an assignment of values to names, in order."""

    values: tuple[tuple[str, int | str], ...]

    @staticmethod
    def of(**values: int | str) -> ParameterPoint:
        """Returns the point with these values."""
        return ParameterPoint(tuple(values.items()))

    def number(self, name: str, default: int) -> int:
        """Returns the integer named ``name``, or ``default`` where the point leaves it open."""
        value = dict(self.values).get(name, default)
        return value if isinstance(value, int) else default

    def word(self, name: str, default: str = "") -> str:
        """Returns the text named ``name``, or ``default`` where the point leaves it open."""
        value = dict(self.values).get(name, default)
        return value if isinstance(value, str) else default

    def __str__(self) -> str:
        return ", ".join(f"{name}={value}" for name, value in self.values)


@dataclass(frozen=True)
class Change:
    """One place that a rewrite changed.

    Attributes:
        path: The file.
        line: Line in the program *before* the rewrite, from 1.
        what: The change in words.
    """

    path: str
    line: int
    what: str


@dataclass(frozen=True)
class Applied:
    """The rewritten program.

    Attributes:
        sources: Text of every file, those left alone included.
        summary: One line for a log or a commit title.
        edits: The places changed, in order of file and line.
    """

    sources: Mapping[str, str]
    summary: str
    edits: tuple[Change, ...]


@dataclass(frozen=True)
class Refused:
    """The rewrite does not apply here, and why; ``line`` where one place is to blame."""

    reason: str
    line: int | None = None


class Rewrite(Protocol):
    """A source-to-source transformation that keeps the program a drop-in replacement."""

    @property
    def name(self) -> str:
        """The rewrite's own name."""
        ...

    @property
    def technique(self) -> str:
        """The key under which the planner's technique table lists it."""
        ...

    @property
    def sample(self) -> ParameterPoint:
        """A usual point; applying it where no point is offered gives the reason."""
        ...

    def parameters(self, program: Program) -> tuple[ParameterPoint, ...]:
        """Returns the points worth trying on this program, the most promising first."""
        ...

    def apply(self, program: Program, point: ParameterPoint) -> Applied | Refused:
        """Returns the program rewritten at one point, or the reason why it must stay as it is."""
        ...
