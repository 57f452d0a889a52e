"""One set of sources with the baseline's entry point and signature."""

from __future__ import annotations

import hashlib
from functools import cached_property

from pydantic import Field, field_validator

from astra_kernels.records.base import Record
from astra_kernels.records.solution import check_source_path


class Candidate(Record):
    """Sources by relative path, and where they came from."""

    sources: dict[str, str] = Field(min_length=1)
    parent: str | None = None
    """Identifier of the candidate it was made from; None for the baseline."""
    title: str = "baseline"
    """What was changed, in one line."""

    @field_validator("sources")
    @classmethod
    def _paths_stay_inside(cls, value: dict[str, str]) -> dict[str, str]:
        for path in value:
            check_source_path(path)
        return value

    @cached_property
    def id(self) -> str:
        """Twelve hex digits of the content hash, with field boundaries: the same sources have the same identifier."""
        digest = hashlib.sha256()
        for path in sorted(self.sources):
            for part in (path, self.sources[path]):
                data = part.encode()
                digest.update(len(data).to_bytes(8, "big") + data)
        return digest.hexdigest()[:12]
