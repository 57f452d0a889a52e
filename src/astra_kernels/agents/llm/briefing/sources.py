"""A candidate's sources: with line numbers to point at, or as they are to search in."""

from __future__ import annotations

import re
from collections.abc import Mapping

from astra_kernels.agents.llm.replies.code import written_files
from astra_kernels.agents.llm.replies.fences import fenced

_MOST_CHARACTERS = 64_000
_INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*[<"]([^>"]+)[>"]', re.MULTILINE)


def plain_sources(sources: Mapping[str, str], entry_file: str) -> str:
    """The files in the format in which answers write them."""
    shown, rest = _shown(sources, entry_file)
    return (written_files(shown) + rest).strip()


def numbered_sources(sources: Mapping[str, str], entry_file: str) -> str:
    """The files with a number before every line."""
    shown, rest = _shown(sources, entry_file)
    parts = []
    for path, text in shown.items():
        lines = text.removesuffix("\n").split("\n")
        width = len(str(len(lines)))
        body = "".join(f"{n:>{width}} {line}".rstrip() + "\n" for n, line in enumerate(lines, 1))
        parts.append(f"### {path}\n{fenced(body, 'cuda')}")
    return ("\n".join(parts) + rest).strip()


def _shown(sources: Mapping[str, str], entry_file: str) -> tuple[dict[str, str], str]:
    """The entry file, then what it includes, while there is room; and a note of what is left out."""
    shown: dict[str, str] = {}
    left_out = []
    used = 0
    for path in _by_distance(sources, entry_file):
        text = sources[path]
        if shown and used + len(text) > _MOST_CHARACTERS:
            left_out.append(f"`{path}` ({len(text)} characters)")
            continue
        shown[path] = text
        used += len(text)
    note = f"\nNot shown, for their length: {', '.join(left_out)}.\n" if left_out else ""
    return shown, note


def _by_distance(sources: Mapping[str, str], entry_file: str) -> list[str]:
    """Paths in the order in which includes reach them from the entry file, then the others by name."""
    order = [entry_file] if entry_file in sources else []
    for path in order:
        for name in _INCLUDE.findall(sources[path]):
            order += [
                p
                for p in sorted(sources)
                if p not in order and (p == name or p.endswith("/" + name))
            ]
    return order + [p for p in sorted(sources) if p not in order]
