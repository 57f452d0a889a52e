"""The normal form of sources: two candidates that differ in layout or comments are one."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping

# In order: raw and plain literals (kept as they are), comments, spliced and blank space, words
# and numbers, and any other sign alone.
_TOKEN = re.compile(
    r"""(?P<raw>R"(?P<mark>[^()\\\s]{0,16})\(.*?\)(?P=mark)")
      | (?P<text>"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*')
      | (?P<comment>//(?:\\\r?\n|[^\n])*|/\*.*?(?:\*/|\Z))
      | (?P<splice>\\\r?\n)
      | (?P<line>\n)
      | (?P<blank>[^\S\n]+)
      | (?P<word>(?:\d|\.\d)(?:[eEpP][+-]|'?[\w.])*|\w+)
      | (?P<sign><<<|>>>|<<=|>>=|\.\.\.|::|->|\+\+|--|&&|\|\||[-+*/%&|^=!<>]=|<<|\#\#|.)""",
    re.VERBOSE | re.DOTALL,
)


def tokens(text: str) -> tuple[str, ...]:
    """Returns the tokens of C++ source without layout and comments.

    A line that starts with ``#`` ends with a newline token, because a directive's end matters.
    """
    found: list[str] = []
    directive, line_start = False, True
    for match in _TOKEN.finditer(text):
        kind = match.lastgroup or ""
        kind = "raw" if kind == "mark" else kind
        if kind in ("comment", "blank", "splice"):
            continue
        if kind == "line":
            if directive:
                found.append("\n")
            directive, line_start = False, True
            continue
        directive = directive or (line_start and match.group() == "#")
        line_start = False
        found.append(match.group())
    if directive:
        found.append("\n")
    return tuple(found)


def fingerprint(sources: Mapping[str, str]) -> str:
    """Returns a SHA-256 that equal programs share, whatever their layout and comments."""
    digest = hashlib.sha256()
    for path in sorted(sources):
        parts = (path, *tokens(sources[path]))
        for part in (str(len(parts)), *parts):
            data = part.encode()
            digest.update(len(data).to_bytes(4, "big") + data)
    return digest.hexdigest()


def same_program(one: Mapping[str, str], other: Mapping[str, str]) -> bool:
    """Tells whether two sets of sources differ in layout and comments only."""
    return fingerprint(one) == fingerprint(other)
