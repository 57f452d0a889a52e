"""Messages of nvcc, cudafe++, g++, ptxas, nvlink and ld as records.

Sources of the forms: nvcc prints EDG's `file(line): error: text` with a caret line below, g++
`file:line:column: error: text`, the assembler `file:line: Error: text`, ptxas both
`ptxas FILE, line N; error : text` (lines of the PTX) and `ptxas error : text`.
"""

import itertools
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

Severity = Literal["error", "warning"]
Tool = Literal["nvcc", "ptxas", "host", "linker", "request"]

LOG_LIMIT_CHARS = 64 * 1024
_DIAGNOSTIC_LIMIT = 100

_SEVERITY = r"(?P<severity>[Ee]rror|[Ww]arning|fatal)"
_EDG = re.compile(
    rf"(?P<file>[^\s(:][^(:]*)\((?P<line>\d+)\): (?:catastrophic )?{_SEVERITY}(?: #[\w-]+)?: (?P<text>.*)"
)
_GNU = re.compile(
    rf"(?P<file>[^\s:]+):(?P<line>\d+):(?:(?P<column>\d+):)? (?:fatal )?{_SEVERITY}: (?P<text>.*)"
)
_PTXAS = re.compile(rf"ptxas (?:.*, line (?P<line>\d+); )?{_SEVERITY}\s*: (?P<text>.*)")
_NVIDIA = re.compile(rf"(?P<tool>nvcc|nvlink) {_SEVERITY}\s*: (?P<text>.*)")
_LINKER = re.compile(
    r"(?:.*?(?=undefined reference|multiple definition)|(?:\S*/)?ld: |collect2: )"
    r"(?P<severity>warning: |error: |)(?P<text>.*)"
)
_CARET = re.compile(r"  (?P<indent> *)\^\s*")


@dataclass(frozen=True, slots=True)
class Diagnostic:
    """One message about a build.

    Attributes:
        severity: "error" or "warning".
        file: path relative to the source tree, or "" where the message has none.
        line: line of the file, 0 where unknown; for ptxas the PTX line is part of the message.
        column: column of the file, or None.
        message: the text, without the position.
        tool: who said it; "request" is Astra itself, before any compiler ran.
    """

    severity: Severity
    file: str
    line: int
    column: int | None
    message: str
    tool: Tool


def parse_log(log: str) -> tuple[Diagnostic, ...]:
    """Reads the diagnostics of a build log, in order, without repetitions, at most a hundred."""
    found: dict[Diagnostic, None] = {}
    lines = log.splitlines()
    for number, line in enumerate(lines):
        diagnostic = _parse_line(line, lines[number + 1 : number + 4])
        if diagnostic is not None:
            found[diagnostic] = None
        if len(found) == _DIAGNOSTIC_LIMIT:
            break
    return tuple(_without_consequences(found))


def tidy_log(log: str, replaced: Mapping[str, str]) -> str:
    """Replaces machine paths by relative ones and bounds the length, keeping both ends."""
    for path, name in replaced.items():
        log = log.replace(path, name)
    if len(log) > LOG_LIMIT_CHARS:
        half = LOG_LIMIT_CHARS // 2
        log = f"{log[:half]}\n[truncated: {len(log) - 2 * half} characters]\n{log[-half:]}"
    return log


def _parse_line(line: str, below: list[str]) -> Diagnostic | None:
    if match := _EDG.fullmatch(line):
        return _diagnostic(match, "nvcc", column=_caret_column(below))
    if match := _GNU.fullmatch(line):
        column = match["column"]
        return _diagnostic(match, "host", column=int(column) if column else None)
    if match := _PTXAS.fullmatch(line):
        where = f"PTX line {match['line']}: " if match["line"] else ""
        return Diagnostic(_severity(match), "", 0, None, where + match["text"].strip(), "ptxas")
    if match := _NVIDIA.fullmatch(line):
        tool: Tool = "nvcc" if match["tool"] == "nvcc" else "linker"
        return Diagnostic(_severity(match), "", 0, None, match["text"].strip(), tool)
    if (match := _LINKER.fullmatch(line)) and "in function" not in match["text"]:
        severity: Severity = "warning" if match["severity"].startswith("warning") else "error"
        return Diagnostic(severity, "", 0, None, match["text"].strip(), "linker")
    return None


def _diagnostic(match: re.Match[str], tool: Tool, column: int | None) -> Diagnostic:
    text = match["text"].strip()
    return Diagnostic(_severity(match), match["file"], int(match["line"]), column, text, tool)


def _severity(match: re.Match[str]) -> Severity:
    return "warning" if match["severity"].lower() == "warning" else "error"


def _caret_column(below: list[str]) -> int | None:
    """The column under EDG's caret; None for lines whose keywords EDG expanded in its echo."""
    for echo, line in itertools.pairwise(below):
        if caret := _CARET.fullmatch(line):
            return None if "__attribute__((" in echo else len(caret["indent"]) + 1
    return None


def _without_consequences(found: Mapping[Diagnostic, None]) -> Iterator[Diagnostic]:
    """Leaves out "ld returned 1 exit status" and "aborted due to errors" beside their causes."""
    causes = [one for one in found if one.severity == "error" and not _is_consequence(one)]
    for one in found:
        if not (causes and _is_consequence(one)):
            yield one


def _is_consequence(one: Diagnostic) -> bool:
    return "ld returned" in one.message or "aborted due to errors" in one.message
