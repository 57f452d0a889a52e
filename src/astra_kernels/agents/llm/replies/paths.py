"""Which file a line or the info string of a block names, in the ways in which models write it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import PurePosixPath

from pydantic_ai import ModelRetry

from astra_kernels.records.solution import check_source_path

HEADERS = (".h", ".hpp", ".cuh", ".inl")
"""Endings of files that a candidate may add."""

_LOOKS_LIKE_PATH = re.compile(r"[\w./+\-\\]+\.(cu|cuh|h|hpp|hh|inl|inc|c|cc|cpp|cxx|ptx|py|json)")
_DECORATION = "#*`_ \t:>\"'"
_WORD = re.compile(r"(?i)(?:new\s+)?(?:file|path|filename|source|edit|in)\s*[:=]?\s+|//\s*")
_KEY = re.compile(r"(?i)(?:path|file|filename|title|name)=")


def named_by_line(line: str, known: Mapping[str, str]) -> str | None:
    """The path that a line consists of: `### kernel.cu`, `**kernel.cu**`, `File: kernel.cu`, `// kernel.cu`."""
    text = line.strip()
    heading = text.lstrip("#").strip()
    if heading in known:
        return heading
    for _ in range(2):
        text = _WORD.sub("", text.strip(_DECORATION), count=1) if _WORD.match(text) else text
        text = text.strip(_DECORATION)
    text = re.sub(r"\s*\((?:new|new file|edited|unchanged)\)$", "", text).strip(_DECORATION)
    if text in known or _LOOKS_LIKE_PATH.fullmatch(text):
        return _plain(text)
    return None


def named_by_info(info: str, known: Mapping[str, str]) -> str | None:
    """The path in an info string: `cuda kernel.cu`, `cuda:kernel.cu`, `cuda path="kernel.cu"`, `kernel.cu`."""
    for word in info.split():
        text = _KEY.sub("", word).strip("{}\"'`,")
        for part in (text, text.partition(":")[2]):
            if part and (part in known or _LOOKS_LIKE_PATH.fullmatch(part)):
                return _plain(part)
    return None


def check_path(path: str, parent: Mapping[str, str]) -> None:
    """Refuse what a candidate may not write: a file of the parent or a new header are allowed.

    Raises:
        ModelRetry: the path leaves the sources, or names a new file that is no header.
    """
    files = ", ".join(sorted(parent)[:20])
    try:
        check_source_path(path)
    except ValueError as error:
        raise ModelRetry(f"{error}. The candidate's files are: {files}.") from None
    if path not in parent and PurePosixPath(path).suffix not in HEADERS:
        raise ModelRetry(
            f"{path!r} is not one of the candidate's files ({files}). Only headers may be added ({', '.join(HEADERS)})."
        )


def _plain(path: str) -> str:
    return path.removeprefix("./") if path.startswith("./") else path
