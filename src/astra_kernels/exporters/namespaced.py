"""A candidate's changed sources as one header, in a namespace of their own, beside the originals.

Equal names in one program would silently be merged, so nothing of it stays in the originals' namespaces. The text
stays as the candidate has it, and can be compared with the original: what it includes is hoisted, macros are put back.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable
from dataclasses import dataclass

from tree_sitter import Node

from astra_kernels.errors import ExportRefused
from astra_kernels.extraction.pruning import pruned
from astra_kernels.extraction.syntax import parse, text_of, walk, without_comments, words

_INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*([<"])([^">]+)[">].*$', re.MULTILINE)
_ONCE = re.compile(r"^[ \t]*#[ \t]*pragma[ \t]+once[ \t]*\n?", re.MULTILINE)
_MACRO = re.compile(r"^[ \t]*#[ \t]*(?:define|undef)[ \t]+(\w+)", re.MULTILINE)
_GUARD = re.compile(
    r"\A((?:\s|//[^\n]*|/\*.*?\*/)*)#[ \t]*ifndef[ \t]+(\w+)[^\n]*\n"
    r"\s*#[ \t]*define[ \t]+\2[ \t]*\n(.*)\n[ \t]*#[ \t]*endif[^\n]*\s*\Z",
    re.DOTALL,
)
_EXPORT = re.compile(
    r"^[ \t]*(?:TVM_FFI_DLL_EXPORT\w*|TORCH_LIBRARY\w*|PYBIND11_MODULE|REGISTER_EXTENSION)\s*\(",
    re.MULTILINE,
)
_C_LINKAGE = re.compile(r'\bextern\s+"C"\s*')
_HEAD = re.compile(r"\A\s*((?://[^\n]*\n)+|/\*.*?\*/\s*\n)", re.DOTALL)


@dataclass(frozen=True)
class Namespaced:
    """The parts of the new file."""

    includes: tuple[str, ...]
    """Lines, in order."""
    macros: tuple[str, ...]
    """Names that the text defines, and that mean something else to the originals."""
    nested: tuple[str, ...]
    """Namespaces that the text opens, as `a::b`."""
    texts: tuple[tuple[str, str], ...]
    """Path and text of every file, those that others include first."""
    licence: str
    """The head of the operator's file; empty where it has none."""


def moved_files(sources: dict[str, str], changed: Iterable[str], entry: str) -> tuple[str, ...]:
    """Changed files, what includes them, and the entry file; those that others include come first.

    Raises:
        ExportRefused: a changed file is not included by the entry file, directly or not.
    """
    needs = {path: _included(path, text, sources) for path, text in sources.items()}
    moved = {*changed, entry}
    while more := {p for p, found in needs.items() if p not in moved and moved - {entry} & found}:
        moved |= more
    order: list[str] = []

    def visit(path: str) -> None:
        if path not in order and path not in seen:
            seen.add(path)
            for inner in sorted(needs[path]):
                visit(inner)
            order.append(path)

    seen: set[str] = set()
    visit(entry)
    if lost := sorted(set(changed) - set(order)):
        raise ExportRefused(
            f"{lost[0]}: changed, but not included by {entry}: a file that is compiled on its own cannot be "
            "put behind a guard; make the change reachable from the operator's file"
        )
    return tuple(p for p in order if p in moved)


def namespaced(
    sources: dict[str, str], moved: tuple[str, ...], namespace: str, entry: str
) -> Namespaced:
    """Takes `moved` files of a candidate apart for a header in `namespace`; what `entry` does not need is left out."""
    includes: dict[str, None] = {}
    macros: dict[str, None] = {}
    nested: dict[str, None] = {}
    texts: list[tuple[str, str]] = []
    bodies: list[tuple[str, str]] = []
    bare = _needed(sources, moved, entry)
    for path in moved:
        text = bare[path]
        macros |= dict.fromkeys(_MACRO.findall(text))
        text, hoisted = _without_includes(path, text, sources, moved, namespace)
        includes |= dict.fromkeys(hoisted)
        nested |= dict.fromkeys(_namespaces(parse(text), ""))
        bodies.append((path, _C_LINKAGE.sub("", _unblocked(text))))
    roots = {name.partition("::")[0] for name in nested}
    for path, text in bodies:
        texts.append((path, _requalified(text, roots, namespace).strip() + "\n"))
    head = _HEAD.match(sources[moved[-1]])
    licence = head[1].strip() if head and re.search("icense|opyright|SPDX", head[1]) else ""
    return Namespaced(
        tuple(includes), tuple(macros), tuple(nested), tuple(_without_head(texts, licence)), licence
    )


def _needed(sources: dict[str, str], moved: tuple[str, ...], entry: str) -> dict[str, str]:
    """Every moved file with those definitions only that the host function needs; operators have no names to go by."""
    wanted = {entry, "operator"}
    found: dict[str, str] = {}
    for path in reversed(moved):
        found[path] = pruned(_bare(sources[path]), wanted)
        wanted |= words(found[path])
    return found


def _without_head(texts: list[tuple[str, str]], licence: str) -> list[tuple[str, str]]:
    return [(path, text.removeprefix(licence).strip() + "\n") for path, text in texts]


def _included(path: str, text: str, sources: dict[str, str]) -> frozenset[str]:
    found = (_meant(path, name, sources) for _, name in _INCLUDE.findall(without_comments(text)))
    return frozenset(p for p in found if p is not None)


def _meant(path: str, name: str, sources: dict[str, str]) -> str | None:
    """The source that an include of a source means; None for what is not among them."""
    beside = posixpath.normpath(posixpath.join(posixpath.dirname(path), name))
    return next((p for p in (beside, name) if p in sources), None)


def _bare(text: str) -> str:
    """Without include guard and exports."""
    text = text.replace("\r\n", "\n")
    guarded = _GUARD.match(text)
    if guarded:
        text = guarded[1] + guarded[3] + "\n"
    text = _ONCE.sub("", text)
    while found := _EXPORT.search(text):
        end = _closing(text, found.end() - 1)
        rest = re.match(r"\s*(;|\{)", text[end:])
        if rest and rest[1] == "{":
            end = _closing(text, end + rest.end() - 1)
        elif rest:
            end += rest.end()
        text = text[: found.start()] + text[end:].lstrip("\n")
    return text


def _closing(text: str, opening: int) -> int:
    """Behind the bracket that closes the one at `opening`; strings and comments are taken for code."""
    pair = {"(": ")", "{": "}"}[text[opening]]
    depth = 0
    for index in range(opening, len(text)):
        depth += (text[index] == text[opening]) - (text[index] == pair)
        if depth == 0:
            return index + 1
    return len(text)


def _without_includes(
    path: str, text: str, sources: dict[str, str], moved: tuple[str, ...], namespace: str
) -> tuple[str, list[str]]:
    """The text without includes of moved files and of those that can be hoisted, and the latter's lines.

    One that stands under a condition stays where it is: the namespace is closed in front of it, and opened behind.
    """
    data = text.encode()
    hoisted: list[str] = []
    edits: list[tuple[int, int, str]] = []
    for node in walk(parse(text)):
        found = _INCLUDE.match(text_of(node)) if node.type == "preproc_include" else None
        if found is None:
            continue
        line = found[0].strip()
        outside = node.parent is not None and node.parent.type == "translation_unit"
        meant = _meant(path, found[2], sources)
        if meant is not None and meant != found[2]:
            line = f'#include "{_spelled(meant, moved[-1])}"'
        if meant in moved:
            edits.append((node.start_byte, node.end_byte, ""))
        elif outside:
            hoisted.append(line)
            edits.append((node.start_byte, node.end_byte, ""))
        elif not _within(node, "namespace_definition"):
            around = f"}}  // namespace {namespace}\n{line}\nnamespace {namespace} {{\n"
            edits.append((node.start_byte, node.end_byte, around))
    for start, end, new in reversed(edits):
        data = data[:start] + new.encode() + data[end:]
    return data.decode(), hoisted


def _spelled(path: str, entry: str) -> str:
    """A source as the operator's own file would include it; the new file lies beside that."""
    return posixpath.relpath(path, posixpath.dirname(entry) or ".")


def _within(node: Node, kind: str) -> bool:
    parent = node.parent
    while parent is not None:
        if parent.type == kind:
            return True
        parent = parent.parent
    return False


def _unblocked(text: str) -> str:
    """`extern "C" { ... }` without its braces: the same name in two namespaces would be one function."""
    data = text.encode()
    spans: list[tuple[int, int]] = []
    for node in walk(parse(text)):
        body = node.child_by_field_name("body") if node.type == "linkage_specification" else None
        if body is not None and body.type == "declaration_list":
            spans += [(body.end_byte - 1, body.end_byte), (node.start_byte, body.start_byte + 1)]
    for start, end in sorted(spans, reverse=True):
        data = data[:start] + data[end:]
    return data.decode()


def _namespaces(node: Node, outer: str) -> Iterable[str]:
    for child in node.children:
        inside = outer
        if child.type == "namespace_definition":
            name = "".join(text_of(child.child_by_field_name("name")).split())
            if not name:
                continue  # an unnamed one: what is in it is nowhere else
            inside = f"{outer}::{name}" if outer else name
            yield inside
        yield from _namespaces(child, inside)


def _requalified(text: str, roots: set[str], namespace: str) -> str:
    """What is named from the global namespace on, in the namespace that it is in now."""
    if not roots:
        return text
    names = "|".join(sorted(map(re.escape, roots)))
    return re.sub(rf"(?<![\w>)\]:])::\s*(?=(?:{names})\s*::)", f"::{namespace}::", text)
