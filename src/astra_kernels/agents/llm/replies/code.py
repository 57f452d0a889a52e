"""Answers that are code: whole files or edits, under the path of the file; never code inside of JSON."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeGuard

from pydantic_ai import ModelRetry

from astra_kernels.agents.llm.replies.edits import Edit, apply_edit, is_start, read_edit
from astra_kernels.agents.llm.replies.fences import Block, Line, fenced, pieces
from astra_kernels.agents.llm.replies.paths import check_path, named_by_info, named_by_line
from astra_kernels.protocols import Refusal

MOST_CHARACTERS = 1_000_000
"""Of all sources of a candidate."""

_HEADING = re.compile(r"\s*[#*]+\s*Candidate\s*\d*\s*[:.)\-–—]*\s*(?P<title>.*?)\s*[#*]*\s*", re.I)
_TITLE = re.compile(r"\s*[#*]*\s*Title\s*[*]*\s*:\s*[*]*\s*(?P<title>.+?)\s*[*]*\s*", re.I)
_REFUSAL = re.compile(r"\s*[#*]*\s*Refusal\s*[*]*\s*:\s*[*]*\s*(?P<reason>.+?)\s*", re.I)
_ELIDED = re.compile(
    r"\s*(?://|/\*|#)\s*(?:\.{3}|…).*|\s*(?://|/\*)\s*\(?(?:the )?(?:rest|remainder) of (?:the )?(?:code|file|kernel).*",
    re.I,
)
_NO_SOURCE = frozenset(
    ("json", "text", "txt", "console", "bash", "sh", "shell", "python", "markdown")
)
"""Languages of blocks that show something, and are no file."""

_MOST_IN_LINE = 1000
"""A longer line is no heading, title or refusal."""

_NO_CODE = (
    "There is no code in your answer: neither a whole file nor a SEARCH/REPLACE edit under a line `### path`. Answer in "
    "that format, or with one line `Refusal: reason`."
)


@dataclass(frozen=True)
class Written:
    """One candidate as an answer has it."""

    title: str
    """Empty where the answer gives none."""
    sources: dict[str, str]
    """Every file, those left alone included."""


@dataclass(frozen=True)
class _Change:
    path: str
    content: str | Edit


def read_candidates(
    text: str, parent: Mapping[str, str], most: int = 1
) -> tuple[Written, ...] | Refusal:
    """The candidates of an answer, in its order, at most `most`; or the model's own refusal.

    Raises:
        ModelRetry: no code, a path that may not be written, an edit that does not match once, a file that is cut off
            or abbreviated; says which.
    """
    sections = list(_sections(pieces(text)))
    written = []
    for title, section in sections:
        if changes := list(_changes(section, parent)):
            written.append(Written(title, _applied(changes, parent)))
    if written:
        return tuple(written[:most])
    refusals = (_REFUSAL.fullmatch(p.text) for _, s in sections for p in s if _is_short(p))
    reason = next((match["reason"] for match in refusals if match), None)
    if reason is None:
        raise ModelRetry(_NO_CODE)
    return Refusal(reason[:500])


def written_files(sources: Mapping[str, str]) -> str:
    """Sources in the format of an answer: `read_candidates` gives them back, byte for byte."""
    return "\n".join(f"### {path}\n{fenced(sources[path], 'cuda')}" for path in sources)


def _sections(found: Sequence[Line | Block]) -> Iterator[tuple[str, list[Line | Block]]]:
    """Title and pieces of every candidate; one section where no heading says `Candidate`."""
    title, section = "", list[Line | Block]()
    for piece in found:
        heading = _HEADING.fullmatch(piece.text) if _is_short(piece) else None
        if heading is not None:
            yield title, section
            title, section = heading["title"][:200], []
            continue
        if _is_short(piece) and (named := _TITLE.fullmatch(piece.text)):
            title = named["title"][:200]
        section.append(piece)
    yield title, section


def _is_short(piece: Line | Block) -> TypeGuard[Line]:
    return isinstance(piece, Line) and len(piece.text) <= _MOST_IN_LINE


def _changes(section: Sequence[Line | Block], parent: Mapping[str, str]) -> Iterator[_Change]:
    """What a section writes, in order. Blocks that name no file are examples, unless one can be meant."""
    path: str | None = None
    index = 0
    lines = [p.text if isinstance(p, Line) else "" for p in section]
    only = next(iter(parent)) if len(parent) == 1 else None
    while index < len(section):
        piece = section[index]
        if isinstance(piece, Line):
            if is_start(piece.text):
                edit, index = read_edit(lines, index, piece.number)
                yield _Change(_known(path or only, piece.number), edit)
                continue
            path = (_is_short(piece) and named_by_line(piece.text, parent)) or path
        else:
            named = named_by_info(piece.info, parent) or path
            yield from _of_block(piece, named, only, parent)
            if not _has_edits(piece):
                path = None
        index += 1


def _of_block(
    block: Block, path: str | None, only: str | None, parent: Mapping[str, str]
) -> Iterator[_Change]:
    if not block.closed and (path or only):
        raise ModelRetry(
            f"The block at line {block.number} of your answer is not closed: the answer seems cut off. "
            "Answer with edits of the lines that change, not with whole files."
        )
    if _has_edits(block):
        yield from _edits_of(block, path or only)
        return
    language = block.info.split()[0].lower() if block.info.split() else ""
    if language in ("diff", "patch"):
        raise ModelRetry(
            f"The block at line {block.number} of your answer is a diff, which is not read. Write SEARCH/REPLACE edits."
        )
    if language in _NO_SOURCE or (path is None and not language):
        return
    path = path or only
    if path is None:
        raise ModelRetry(
            f"The block at line {block.number} of your answer names no file: write `### path` above it."
        )
    _check_complete(block.body, path, parent.get(path, ""))
    yield _Change(path, block.body)


def _has_edits(block: Block) -> bool:
    return any(is_start(line.rstrip("\r")) for line in block.body.split("\n"))


def _edits_of(block: Block, path: str | None) -> Iterator[_Change]:
    lines = [line.rstrip("\r") for line in block.body.split("\n")]
    index = 0
    while index < len(lines):
        if is_start(lines[index]):
            number = block.number + 1 + index
            edit, index = read_edit(lines, index, number)
            yield _Change(_known(path, number), edit)
            continue
        path = named_by_line(lines[index], {}) or path
        index += 1


def _known(path: str | None, number: int) -> str:
    if path is None:
        raise ModelRetry(
            f"The edit at line {number} of your answer names no file: write `### path` above it."
        )
    return path


def _check_complete(body: str, path: str, before: str) -> None:
    """Refuse a file in which a comment stands for code that was left out; comments that were there before may stay."""
    kept = set(before.split("\n"))
    for line in body.split("\n"):
        if line not in kept and _ELIDED.fullmatch(line.rstrip("\r")):
            raise ModelRetry(
                f"{path} is abbreviated ({line.strip()[:80]!r}). Write the whole file, or edits of the lines that change."
            )


def _applied(changes: Sequence[_Change], parent: Mapping[str, str]) -> dict[str, str]:
    sources = dict(parent)
    for change in changes:
        check_path(change.path, parent)
        if isinstance(change.content, str):
            sources[change.path] = _with_ends(change.content, parent.get(change.path, ""))
        elif change.path in sources:
            sources[change.path] = apply_edit(sources[change.path], change.content, change.path)
        else:
            raise ModelRetry(
                f"{change.path} is a new file: write it whole, there is nothing to search."
            )
    total = sum(map(len, sources.values()))
    if total > max(MOST_CHARACTERS, 2 * sum(map(len, parent.values()))):
        raise ModelRetry(f"The sources have {total} characters, which is too much.")
    return sources


def _with_ends(text: str, before: str) -> str:
    """The text with CRLF where the file had CRLF throughout and the answer has LF throughout."""
    if "\r" not in text and "\n" in before and before.count("\r\n") == before.count("\n"):
        return text.replace("\n", "\r\n")
    return text
