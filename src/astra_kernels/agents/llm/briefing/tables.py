"""Markdown tables and numbers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A Markdown table; empty text where there are no rows."""
    lines = [_line(row) for row in rows]
    return "\n".join([_line(head), "|" + "---|" * len(head), *lines]) if lines else ""


def number(value: float | None) -> str:
    """Four significant digits, whole numbers in full; a dash for what is not known."""
    if value is None:
        return "-"
    if value == int(value) and abs(value) < 1e15:
        return str(int(value))
    return f"{value:.4g}"


def short(text: str, most: int) -> str:
    """The text in one line of at most `most` characters, without control characters: it may go to a terminal."""
    line = " ".join("".join(c if c.isprintable() else " " for c in text).split())
    return line if len(line) <= most else line[: most - 3] + "..."


def _line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|").replace("\n", " ") for cell in cells) + " |"
