"""The C++ function behind an operator's exported name."""

from __future__ import annotations

import re
from collections.abc import Mapping

_EXPORT = re.compile(r"^[ \t]*(TVM_FFI_DLL_EXPORT_TYPED_FUNC\w*)[ \t]*\(\s*(\w+)\s*,", re.MULTILINE)
_FUNCTION = re.compile(r"([A-Za-z_]\w*)(?:\s*<[^()]*>)?\s*$")


def exported_function(sources: Mapping[str, str], name: str) -> str:
    """The name of the function that is exported as `name`, without namespaces; `name` itself if nothing exports it."""
    for text in sources.values():
        for match in _EXPORT.finditer(text):
            if match[2] == name:
                written = _argument(text, match.end())
                found = _FUNCTION.search(written)
                return found[1] if found else name
    return name.rpartition("::")[2]


def exports(sources: Mapping[str, str], name: str) -> bool:
    """Whether a source exports something as `name`."""
    return any(m[2] == name for text in sources.values() for m in _EXPORT.finditer(text))


def _argument(text: str, start: int) -> str:
    """The rest of a macro's arguments, without brackets around it."""
    depth, end = 1, start
    while end < len(text) and depth:
        depth += (text[end] == "(") - (text[end] == ")")
        end += 1
    written = text[start : end - 1].strip()
    return written[1:-1] if written.startswith("(") and written.endswith(")") else written
