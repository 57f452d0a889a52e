"""Where a problem's sources came from: enough to put a change back there, and to notice that the original has moved on."""

from __future__ import annotations

import re
from typing import Self

from pydantic import Field, field_validator, model_validator

from astra_kernels.records.base import Record
from astra_kernels.records.solution import check_source_path


class OriginalFunction(Record):
    """The operator's host function (or its kernel, where nothing launches it) in the framework's tree."""

    name: str = Field(min_length=1)
    """With its namespace."""
    file: str
    """Path in the framework's tree."""
    line: int = Field(ge=1)
    """Of the definition, template head included; 1 is the first."""

    _file = field_validator("file")(check_source_path)


class OriginalFile(Record):
    """One source of the problem and the file that it was copied from."""

    path_in_problem: str
    """Below `baseline/`."""
    path_in_tree: str
    """In the framework's repository; of a source that the framework's own code writes, the file with that code."""
    sha256: str
    """Of the original file's text as UTF-8."""
    whole: bool
    """Whether the problem has all of it, unchanged; else what the operator needs."""

    _paths = field_validator("path_in_problem", "path_in_tree")(check_source_path)

    @field_validator("sha256")
    @classmethod
    def _hexadecimal(cls, value: str) -> str:
        if not re.fullmatch(r"[0-9a-f]{64}", value):
            raise ValueError(f"sha256 {value!r} is not 64 lower-case hexadecimal digits")
        return value


class Provenance(Record):
    """The framework, the operator in it, and the file of every source that was copied."""

    framework: str = Field(min_length=1)
    version: str | None = None
    commit: str | None = None
    """Of the framework's repository; None where it is unknown, or where a copied file differs from it."""
    symbol: str = Field(min_length=1)
    """The name that the framework exports the operator by."""
    entry: OriginalFunction
    files: tuple[OriginalFile, ...] = Field(min_length=1)
    licence: str | None = None
    """SPDX identifier."""

    @field_validator("commit")
    @classmethod
    def _is_a_commit(cls, value: str | None) -> str | None:
        if value is not None and not re.fullmatch(r"[0-9a-f]{7,64}", value):
            raise ValueError(f"commit {value!r} is no Git commit")
        return value

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        paths = [f.path_in_problem for f in self.files]
        twice = next((p for p in paths if paths.count(p) > 1), None)
        if twice is not None:
            raise ValueError(f"files: {twice!r} appears twice")
        if self.entry.file not in {f.path_in_tree for f in self.files}:
            raise ValueError(f"entry.file: {self.entry.file!r} is not among the files")
        return self

    def original(self, path_in_problem: str) -> OriginalFile | None:
        """The file that a source was copied from; None for one that is not the framework's."""
        return next((f for f in self.files if f.path_in_problem == path_in_problem), None)
