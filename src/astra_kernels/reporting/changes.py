"""The source difference, line by line, with what the counters say of each line."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from astra_kernels.records.candidate import Candidate
from astra_kernels.records.evaluation import Evaluation, Passed

_CONTEXT = 3
_INSTRUCTIONS = "inst_executed"


@dataclass(frozen=True, kw_only=True)
class Line:
    """One line of a difference."""

    sign: Literal["+", "-", " ", "@"]
    old: int | None
    new: int | None
    text: str
    share: float | None = None
    """Of the warp instructions of all counted lines, in its own version of the file; None where nothing was counted."""


@dataclass(frozen=True, kw_only=True)
class FileChange:
    """One file that differs."""

    path: str
    lines: tuple[Line, ...]

    @property
    def counted(self) -> bool:
        """Whether any line has counters."""
        return any(line.share is not None for line in self.lines)


def changes(
    old: Candidate, new: Candidate, evaluations: Sequence[Evaluation]
) -> tuple[FileChange, ...]:
    """What differs between two candidates; `evaluations` are the old one's and the new one's, in that order."""
    before = _shares(evaluations[:1])
    after = _shares(evaluations[1:])
    found = []
    for path in sorted(old.sources.keys() | new.sources.keys()):
        texts = old.sources.get(path, ""), new.sources.get(path, "")
        if texts[0] != texts[1]:
            lines = _lines(path, texts, before, after)
            found.append(FileChange(path=path, lines=tuple(lines)))
    return tuple(found)


def _lines(
    path: str,
    texts: tuple[str, str],
    before: dict[tuple[str, int], float],
    after: dict[tuple[str, int], float],
) -> Iterable[Line]:
    a, b = (text.splitlines() for text in texts)
    for group in difflib.SequenceMatcher(None, a, b, autojunk=False).get_grouped_opcodes(_CONTEXT):
        first, last = group[0], group[-1]
        where = f"@@ -{first[1] + 1},{last[2] - first[1]} +{first[3] + 1},{last[4] - first[3]} @@"
        yield Line(sign="@", old=None, new=None, text=where)
        for tag, i1, i2, j1, j2 in group:
            if tag == "equal":
                for i, j in zip(range(i1, i2), range(j1, j2), strict=True):
                    yield Line(
                        sign=" ", old=i + 1, new=j + 1, text=b[j], share=after.get((path, j + 1))
                    )
                continue
            for i in range(i1, i2):
                yield Line(
                    sign="-", old=i + 1, new=None, text=a[i], share=before.get((path, i + 1))
                )
            for j in range(j1, j2):
                yield Line(sign="+", old=None, new=j + 1, text=b[j], share=after.get((path, j + 1)))


def _shares(evaluations: Sequence[Evaluation]) -> dict[tuple[str, int], float]:
    """Share of the counted instructions by file and line, over all launches of the first evaluation that has any."""
    for evaluation in evaluations:
        counted: dict[tuple[str, int], float] = {}
        if isinstance(evaluation, Passed):
            for workload in evaluation.workloads:
                for profile in workload.profiles:
                    for line in profile.lines:
                        place = line.file, line.line
                        counted[place] = counted.get(place, 0.0) + line.metrics.get(
                            _INSTRUCTIONS, 0.0
                        )
        total = sum(counted.values())
        if total:
            return {place: value / total for place, value in counted.items()}
    return {}
