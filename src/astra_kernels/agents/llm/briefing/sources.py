"""A candidate's sources: with line numbers to point at, or as they are to search in.

Of sources that are long together the file of the entry point is shown, and of the others the definitions that it uses.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from astra_kernels.agents.llm.replies.code import written_files
from astra_kernels.agents.llm.replies.fences import fenced
from astra_kernels.agents.source_view import Excerpt, source_view

_MOST_CHARACTERS = 40_000


def plain_sources(sources: Mapping[str, str], entry_file: str) -> str:
    """The files in the format in which answers write them; parts of files under the lines that they are."""
    view = source_view(sources, entry_file, _MOST_CHARACTERS)
    parts = [written_files({e.path: e.text for e in view if e.whole})]
    parts += [_part(e) for e in view if not e.whole]
    return "\n".join([*parts, _left_out(sources, view)]).strip()


def numbered_sources(sources: Mapping[str, str], entry_file: str) -> str:
    """The files, or parts of them, with a number before every line."""
    view = source_view(sources, entry_file, _MOST_CHARACTERS)
    parts = [
        f"### {e.path if e.whole else _lines(e)}\n{fenced(_numbered(e), 'cuda')}" for e in view
    ]
    return "\n".join([*parts, _left_out(sources, view)]).strip()


def _part(excerpt: Excerpt) -> str:
    code = fenced(excerpt.text + "\n", "cuda")
    return f"#### {_lines(excerpt)}\n{code}"


def _numbered(excerpt: Excerpt) -> str:
    lines = excerpt.text.removesuffix("\n").split("\n")
    width = len(str(excerpt.first_line + len(lines) - 1))
    return "".join(
        f"{number:>{width}} {line}".rstrip() + "\n"
        for number, line in enumerate(lines, excerpt.first_line)
    )


def _lines(excerpt: Excerpt) -> str:
    last = excerpt.first_line + excerpt.text.removesuffix("\n").count("\n")
    return f"lines {excerpt.first_line} to {last} of `{excerpt.path}`"


def _left_out(sources: Mapping[str, str], view: Sequence[Excerpt]) -> str:
    """A note of what is not shown."""
    whole = {e.path for e in view if e.whole}
    partly = {e.path for e in view} - whole
    rest = [
        f"`{path}` ({len(sources[path])} characters{', shown in part' if path in partly else ''})"
        for path in sorted(sources)
        if path not in whole
    ]
    return f"\nNot shown, for their length: {', '.join(rest)}.\n" if rest else ""
