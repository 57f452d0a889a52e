"""The operator's own file with a guard at the top of its host function, and one more include. Nothing else changes."""

from __future__ import annotations

import re

from tree_sitter import Node

from astra_kernels.errors import ExportRefused
from astra_kernels.extraction.syntax import parse, text_of, walk
from astra_kernels.records.provenance import OriginalFunction

_DEFINING = (
    "function_definition",
    "namespace_definition",
    "template_declaration",
    "struct_specifier",
    "class_specifier",
    "linkage_specification",
    "declaration",
)


def guarded(text: str, entry: OriginalFunction, include: str, guard: tuple[str, ...]) -> str:
    """The file with `guard` at the top of the body of `entry`, and `include` behind its includes.

    Args:
        text: the file.
        entry: the host function; its line decides between functions of one name.
        include: the line to include the new file.
        guard: lines, without indentation.

    Raises:
        ExportRefused: the function is not there.
    """
    newline = "\r\n" if "\r\n" in text else "\n"
    data = text.encode()
    root = parse(text)
    body = _body(root, entry)
    at = body.start_byte + 1
    indent = _indent(body)
    inserted = "".join(f"{newline}{indent}{line}" for line in guard)
    rest = data[at:]
    if not re.match(rb"[ \t]*\r?\n", rest):
        inserted += newline + indent
        rest = rest.lstrip(b" \t")
    data = data[:at] + inserted.encode() + rest
    place, before = _include_place(root, data)
    line = f"{before}{include}{newline}".replace("\n", newline) if before else include + newline
    return (data[:place] + line.encode() + data[place:]).decode()


def _body(root: Node, entry: OriginalFunction) -> Node:
    name = entry.name.rpartition("::")[2]
    found: list[Node] = []
    for node in walk(root):
        if node.type != "function_definition":
            continue
        declarator = next((n for n in walk(node) if n.type == "function_declarator"), None)
        body = node.child_by_field_name("body")
        if declarator is None or body is None or body.type != "compound_statement":
            continue
        said = text_of(declarator.child_by_field_name("declarator"))
        if said.rpartition("::")[2] == name:
            found.append(node)
    exact = [n for n in found if n.start_point.row < entry.line <= n.end_point.row + 1]
    chosen = exact or found
    if len(chosen) != 1:
        raise ExportRefused(
            f"{entry.file}: {len(chosen)} definitions of {entry.name} at line {entry.line}; extract the operator again"
        )
    body = chosen[0].child_by_field_name("body")
    assert body is not None
    return body


def _indent(body: Node) -> str:
    """Of the first statement in a body."""
    first = next((c for c in body.named_children), None)
    if first is None or first.start_point.row == body.start_point.row:
        return "  "
    return " " * int(first.start_point.column)


def _include_place(root: Node, data: bytes) -> tuple[int, str]:
    """Where an include goes, and what has to stand in front of it: behind the file's own, else on top."""
    last: Node | None = None
    for child in root.children:
        if child.type in _DEFINING:
            break
        if child.type == "preproc_include":
            last = child
    if last is None:
        head = re.match(rb"(?:\s*//[^\n]*\n|\s*/\*.*?\*/[ \t]*\n)*", data, re.DOTALL)
        place = head.end() if head else 0
        once = re.match(rb"\s*#\s*pragma\s+once[^\n]*\n", data[place:])
        return place + (once.end() if once else 0), ""
    end = int(last.end_byte)
    return end, "" if data[end - 1 : end] == b"\n" else "\n"
