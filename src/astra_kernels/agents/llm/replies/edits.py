"""Search/replace edits: what they look like, and how one is applied. Whole lines, matched exactly once."""

from __future__ import annotations

import re
from dataclasses import dataclass
from difflib import SequenceMatcher

from pydantic_ai import ModelRetry

_SEARCH = re.compile(r"<{5,9} ?SEARCH\s*")
_MIDDLE = re.compile(r"={5,9}\s*")
_REPLACE = re.compile(r">{5,9} ?REPLACE\s*")
_CONTEXT = 2


@dataclass(frozen=True)
class Edit:
    """Lines to find and lines to put in their place, without their ends."""

    search: tuple[str, ...]
    replace: tuple[str, ...]


def is_start(line: str) -> bool:
    """Whether a line begins an edit."""
    return _SEARCH.fullmatch(line) is not None


def read_edit(lines: list[str], start: int, number: int) -> tuple[Edit, int]:
    """The edit that starts at `lines[start]`, and the index after it.

    Args:
        lines: lines without their ends.
        start: index of the line with SEARCH.
        number: what to call that line when something is wrong with it.

    Raises:
        ModelRetry: a marker is missing.
    """
    middle = _find(_MIDDLE, lines, start + 1)
    end = _find(_REPLACE, lines, start + 1)
    if middle is None or end is None or end < middle:
        missing = ">>>>>>> REPLACE" if middle is not None and end is None else "======="
        raise ModelRetry(f"The edit at line {number} of your answer has no line {missing!r}.")
    nested = next((i for i in range(start + 1, end) if is_start(lines[i])), None)
    if nested is not None:
        raise ModelRetry(
            f"The edit at line {number} of your answer has no line '>>>>>>> REPLACE' before the next edit begins."
        )
    return Edit(tuple(lines[start + 1 : middle]), tuple(lines[middle + 1 : end])), end + 1


def written(edit: Edit) -> str:
    """The edit as an answer has it."""
    lines = ("<<<<<<< SEARCH", *edit.search, "=======", *edit.replace, ">>>>>>> REPLACE")
    return "".join(line + "\n" for line in lines)


def apply_edit(text: str, edit: Edit, path: str) -> str:
    """`text` with the lines replaced; ends of lines stay as the file has them.

    Raises:
        ModelRetry: the lines are not there, or there more than once; shows the nearest ones.
    """
    ends = "\r\n" if text.count("\r\n") * 2 > text.count("\n") else "\n"
    lines = text.split("\n")
    bare = [line.removesuffix("\r") for line in lines]
    search = [line.removesuffix("\r") for line in edit.search]
    if not search:
        raise ModelRetry(f"An edit of {path} has nothing to search for: copy the lines to change.")
    places = _places(bare, search)
    if not places:
        places = _places([b.rstrip() for b in bare], [s.rstrip() for s in search])
    if not places:
        raise ModelRetry(_not_found(bare, search, path))
    if len(places) > 1:
        where = ", ".join(str(p + 1) for p in places[:8])
        raise ModelRetry(
            f"The SEARCH that begins with {_quoted(search)} matches {len(places)} places of {path}, at lines {where}. "
            "Add neighbouring lines until it matches one."
        )
    start, end = places[0], places[0] + len(search)
    carriage = "\r" if ends == "\r\n" else ""
    new = [line.removesuffix("\r") + carriage for line in edit.replace]
    made = [*lines[:start], *new, *lines[end:]]
    if end == len(lines) and made:
        made[-1] = made[-1].removesuffix("\r")  # the last line of a file has no end
    return "\n".join(made)


def _find(marker: re.Pattern[str], lines: list[str], start: int) -> int | None:
    return next((i for i in range(start, len(lines)) if marker.fullmatch(lines[i])), None)


def _places(lines: list[str], search: list[str]) -> list[int]:
    count = len(search)
    return [i for i in range(len(lines) - count + 1) if lines[i : i + count] == search]


def _quoted(search: list[str]) -> str:
    first = next((line.strip() for line in search if line.strip()), "")
    return repr(first[:80])


def _not_found(lines: list[str], search: list[str], path: str) -> str:
    """Says which line of the search is the first that differs at the most similar place, and shows what is there."""
    start = _most_similar(lines, search)
    here = lines[start : start + len(search)]
    differs = next((i for i, (a, b) in enumerate(zip(here, search, strict=False)) if a != b), 0)
    first, last = max(0, start - _CONTEXT), start + len(search) + _CONTEXT
    shown = "\n".join(lines[first:last][:40])
    return (
        f"The SEARCH that begins with {_quoted(search)} is not in {path}. The nearest place is line {start + 1}; "
        f"there, your line {search[differs].strip()[:120]!r} differs. Lines {first + 1} to "
        f"{min(last, len(lines), first + 40)} of {path} are:\n{shown}\nCopy lines exactly, and whole."
    )


def _most_similar(lines: list[str], search: list[str]) -> int:
    """Index at which most lines of the search stand in their place, else of the line that is most like its first."""
    wanted = [line.strip() for line in search]
    there = [line.strip() for line in lines]
    best, most = 0, 0
    for start in range(max(1, len(lines) - len(search) + 1)):
        window = there[start : start + len(search)]
        count = sum(a == b != "" for a, b in zip(window, wanted, strict=False))
        if count > most:
            best, most = start, count
    if most:
        return best
    first = next((line.strip() for line in search if line.strip()), "")
    matcher = SequenceMatcher(b=first, autojunk=False)
    similar = 0.0
    for index, line in enumerate(lines):
        matcher.set_seq1(line.strip()[:200])
        if matcher.real_quick_ratio() > similar and (ratio := matcher.ratio()) > similar:
            best, similar = index, ratio
    return best
