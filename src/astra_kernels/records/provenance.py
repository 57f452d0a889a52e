"""Where the sources of a problem are from, for a program that takes a change back there."""

from __future__ import annotations

from pydantic import Field

from astra_kernels.records.base import Record


class OriginalFunction(Record):
    """A function where it was found."""

    name: str
    """With its namespace."""
    file: str
    """Path in the framework's tree."""
    line: int = Field(ge=1)


class OriginalFile(Record):
    """A source of the problem and the file that it was made from."""

    path_in_problem: str
    path_in_tree: str
    sha256: str
    """Of the text of the original file, as it is in the tree."""
    whole: bool
    """False where the problem has a part of it only."""


class Provenance(Record):
    """Framework, version, commit, and the original of every source."""

    framework: str
    version: str | None
    commit: str | None
    symbol: str
    """The name that the operator is exported by."""
    entry: OriginalFunction
    files: tuple[OriginalFile, ...]
    licence: str | None
