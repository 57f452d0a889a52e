"""Reads what compute-sanitizer prints.

The format is that of the Compute Sanitizer documentation (2021 to 2025): lines that begin with nine equal
signs; an error is a headline, then where (`at`), who (`by thread`) and further lines; one summary ends it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import PurePath
from typing import Literal

Dim3 = tuple[int, int, int]

_MARK = "========="
_SUMMARY = re.compile(
    r"(?:ERROR|RACECHECK|INITCHECK) SUMMARY: (\d+) (?:error|hazard)s?\b(?! were not)"
)
_BY = re.compile(r"by thread \((\d+),(\d+),(\d+)\) in block \((\d+),(\d+),(\d+)\)")
_PLACE = re.compile(
    r"(?P<kernel>.+?)(?:\+0x[0-9a-f]+)?(?: in (?P<file>\S[^\[\]]*?):(?P<line>\d+))?$"
)
_OLD_PLACE = re.compile(
    r"0x[0-9a-f]+ in (?:(?P<file>[^:()]+):(?P<line>\d+):)?(?P<kernel>.+?)$"
)  # before 2022.3
_INVALID = re.compile(r"Invalid __(\w+)__ (?:read|write|atomic)")
_UNWRITTEN = re.compile(r"Uninitialized __(\w+)__ memory read")
_RACE = re.compile(r"(?:(?:Error|Warning): )?(?:Race reported between|.*Potential \w+ hazard)")
_ACCESS = re.compile(
    r"(?:Race reported between|and) (?:Read|Write|Atomic) access at (.+?)(?: \[\d+ hazards?\])?$"
)
# These come from the calls of a launcher, which another gate judges, or from the tool itself.
_NO_ERROR_OF_A_KERNEL = re.compile(
    r"COMPUTE-SANITIZER|Program hit |Target application returned|Leaked |LEAK SUMMARY|Saved host|Host Frame"
)
_TOOL_FAILED = re.compile(
    r"Internal Sanitizer Error|Internal Error|No attachable process|terminated before|not supported|"
    r"unable to|failed to|didn't terminate|timed? ?out|Unknown option|Error: .*(?:permission|initiali[sz])",
    re.IGNORECASE,
)
_DETAIL = re.compile(
    r"(?:at |by thread|Address |Access |and is |and (?:Read|Write|Atomic) |Device Frame|Host Frame|Saved host|"
    r"Barrier is|Current Value|(?:Read|Write) Thread|\[\d+ hazard|in \S+:\d+)"
)


@dataclass(frozen=True, kw_only=True)
class ToolError:
    """One error that a tool reports."""

    kind: str
    """As the simulator names it where it finds the same: `global_bounds`, `shared_race`, ..."""
    severity: Literal["error", "warning"]
    kernel: str
    detail: str
    block: Dim3 | None = None
    thread: Dim3 | None = None
    file: str | None = None
    line: int | None = None


@dataclass(frozen=True)
class ToolReport:
    """Everything that a tool reports.

    Attributes:
        errors: Those of kernels, in order.
        complete: Whether there is a summary, that is, whether the tool saw the program to its end.
        total: Errors by the summary; more than are printed.
        failures: What the tool says of itself.
    """

    errors: tuple[ToolError, ...]
    complete: bool
    total: int
    failures: tuple[str, ...]


@dataclass
class _Record:
    headline: str
    lines: list[str] = field(default_factory=list)


def parse_report(output: str, source_root: str = "") -> ToolReport:
    """Reads a tool's output; other lines than the tool's are skipped.

    Args:
        output: What the tool and the program under it printed.
        source_root: Files below it are named relative to it, and preferred as the place of an error.
    """
    records: list[_Record] = []
    totals: list[int] = []
    failures: list[str] = []
    for line in output.splitlines():
        if not line.startswith(_MARK):
            continue
        text = line[len(_MARK) :].strip()
        summary = _SUMMARY.match(text)
        if summary:
            totals.append(int(summary[1]))
        elif not text or _NO_ERROR_OF_A_KERNEL.match(text):
            continue
        elif _DETAIL.match(text):
            if records:
                records[-1].lines.append(text)
        elif _TOOL_FAILED.search(text):
            failures.append(text)
        elif "SUMMARY" not in text:
            records.append(_Record(text))
    errors = tuple(_error(record, source_root) for record in records)
    return ToolReport(errors, bool(totals), max(totals, default=0), tuple(failures))


def _error(record: _Record, source_root: str) -> ToolError:
    first = _ACCESS.search(record.headline)
    places = [first[1]] if first else []
    places += [line[3:] for line in record.lines if line.startswith("at ")]
    places += [m[1] for line in record.lines if (m := _ACCESS.match(line))]
    frames = [
        line.partition(":")[2].strip() for line in record.lines if line.startswith("Device Frame")
    ]
    found = [_place(text) for text in (*places, *frames)]
    inside = [p for p in found if p[1] is not None and source_root and p[1].startswith(source_root)]
    placed = [*inside, *(p for p in found if p[1] is not None), *found, ("", None, None)]
    _, file, line = placed[0]
    who = next((m for text in record.lines if (m := _BY.search(text))), None)
    numbers = [int(n) for n in who.groups()] if who else []
    said = [
        t for t in record.lines if not t.startswith(("at ", "by thread", "Device Frame", "Host"))
    ]
    return ToolError(
        kind=_kind(record),
        severity="warning" if record.headline.startswith("Warning") else "error",
        kernel=(_place(frames[-1])[0] if frames else found[0][0]) if found else "",
        detail="; ".join([record.headline, *said]),
        thread=(numbers[0], numbers[1], numbers[2]) if numbers else None,
        block=(numbers[3], numbers[4], numbers[5]) if numbers else None,
        file=None if file is None else _relative(file, source_root),
        line=line,
    )


def _place(text: str) -> tuple[str, str | None, int | None]:
    """Function, file and line of a place as the tool writes it."""
    match = _OLD_PLACE.match(text) or _PLACE.match(text)
    if match is None:
        return text, None, None
    line = match["line"]
    return match["kernel"].strip(), match["file"], None if line is None else int(line)


def _relative(file: str, source_root: str) -> str:
    path = PurePath(file)
    if source_root and path.is_relative_to(source_root):
        return str(path.relative_to(source_root))
    return file


def _kind(record: _Record) -> str:
    headline, rest = record.headline, " ".join(record.lines)
    invalid = _INVALID.match(headline)
    if invalid:
        what = "misaligned" if "is misaligned" in rest else "bounds"
        return f"{invalid[1]}_{what}"
    unwritten = _UNWRITTEN.match(headline)
    if unwritten:
        return f"uninitialised_{unwritten[1]}_read"
    if headline.startswith("Host API uninitialized"):
        return "uninitialised_copy"
    if _RACE.match(headline):
        return "shared_race"
    if headline.startswith("Barrier error"):
        return "divergent_barrier" if "ivergent" in headline else "invalid_barrier"
    return "illegal_access"
