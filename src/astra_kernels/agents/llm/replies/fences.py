"""Fenced blocks of Markdown (CommonMark 0.31, section 4.5), as far as answers need them."""

from __future__ import annotations

import re
from dataclasses import dataclass

NO_FINAL_NEWLINE = "\\ No newline at end of file"
"""Stands after a block whose text does not end with a newline, as in diffs of git."""

_OPENING = re.compile(r" {0,3}(?P<fence>`{3,}(?=[^`]*$)|~{3,})(?P<info>.*)")


@dataclass(frozen=True)
class Line:
    """One line outside of every block, without its end."""

    number: int
    """Counts from 1 in the whole answer."""
    text: str


@dataclass(frozen=True)
class Block:
    """One fenced block."""

    number: int
    """Line of the opening fence, from 1."""
    info: str
    body: str
    closed: bool
    """False where the answer ends inside the block."""


def pieces(text: str) -> tuple[Line | Block, ...]:
    """The answer as lines and blocks, in order. Lines end with LF alone; a CR belongs to the text of a block."""
    lines = text.split("\n")
    found: list[Line | Block] = []
    index = 0
    while index < len(lines):
        opening = _OPENING.fullmatch(lines[index].rstrip("\r"))
        if opening is None:
            found.append(Line(index + 1, lines[index].rstrip("\r")))
            index += 1
            continue
        end = _closing(lines, index + 1, opening["fence"])
        body = lines[index + 1 : end]
        closed = end < len(lines)
        content = "".join(line + "\n" for line in body)
        if closed and end + 1 < len(lines) and lines[end + 1].rstrip("\r") == NO_FINAL_NEWLINE:
            content = content.removesuffix("\n")
        found.append(Block(index + 1, opening["info"].strip(), content, closed))
        index = end + 1
    return tuple(p for p in found if not isinstance(p, Line) or p.text != NO_FINAL_NEWLINE)


def _closing(lines: list[str], start: int, fence: str) -> int:
    """Index of the line that closes a fence, or the number of lines where none does."""
    for index in range(start, len(lines)):
        line = lines[index].strip()
        if len(line) >= len(fence) and set(line) == {fence[0]}:
            return index
    return len(lines)


def fenced(body: str, info: str = "") -> str:
    """A block with this content; the fence is longer than any run of backticks in it."""
    longest = max((len(run) for run in re.findall("`+", body)), default=0)
    fence = "`" * max(3, longest + 1)
    if not body or body.endswith("\n"):
        return f"{fence}{info}\n{body}{fence}\n"
    return f"{fence}{info}\n{body}\n{fence}\n{NO_FINAL_NEWLINE}\n"
