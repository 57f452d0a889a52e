"""What of a candidate's sources a reader needs to see: all of a small program, the used parts of a large library.

A kernel of a header library drags in headers of a hundred kilobytes of which it uses three functions. Beside the
file of the entry point, whole, a reader gets the definitions that are reached from it by name, the nearest first.
Names are looked up without types: of overloads and specialisations the first few are shown.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from astra_kernels.agents.rewrites.syntax import Node, find, line_of, parse, text_of

_DEFINITIONS = ("function_definition", "struct_specifier", "class_specifier")
_IDENTIFIER = re.compile(rb"[A-Za-z_]\w+")
_LONGEST = 8_000
"""Characters of one definition, at most: larger ones are tables of overloads."""
_OVERLOADS = 3


@dataclass(frozen=True, slots=True)
class Excerpt:
    """Lines of one file."""

    path: str
    first_line: int
    text: str
    whole: bool
    """Whether it is the whole file."""


@dataclass(frozen=True, slots=True)
class _Definition:
    path: str
    name: str
    line: int
    text: str


def source_view(
    sources: Mapping[str, str], entry_file: str, most_characters: int = 40_000
) -> tuple[Excerpt, ...]:
    """Whole files if they all fit, the entry point's first; else it and the definitions that it reaches.

    Excerpts of one file are in the order of its lines; the file that is reached first comes first.
    """
    order = [entry_file, *sorted(p for p in sources if p != entry_file)]
    if sum(map(len, sources.values())) <= most_characters:
        return tuple(Excerpt(p, 1, sources[p], True) for p in order)
    found: list[_Definition] = []
    left = most_characters - len(sources[entry_file])
    for definition in _reached(sources, entry_file):
        if len(definition.text) <= min(left, _LONGEST):
            found.append(definition)
            left -= len(definition.text)
    nearest = list(dict.fromkeys(d.path for d in found))
    excerpts = [
        Excerpt(d.path, d.line, d.text, False)
        for d in sorted(found, key=lambda d: (nearest.index(d.path), d.line))
    ]
    return (Excerpt(entry_file, 1, sources[entry_file], True), *excerpts)


def _reached(sources: Mapping[str, str], entry_file: str) -> Iterator[_Definition]:
    """Definitions in other files, by how many names lie between them and the entry point's file."""
    known: dict[str, list[_Definition]] = {}
    for path in sources:
        if path != entry_file:
            for definition in _definitions(path, sources[path]):
                known.setdefault(definition.name, []).append(definition)
    seen: set[str] = set()
    waiting = [sources[entry_file]]
    while waiting:
        text = waiting.pop(0)
        for name in dict.fromkeys(_IDENTIFIER.findall(text.encode())):
            word = name.decode()
            if word not in known or word in seen:
                continue
            seen.add(word)
            for definition in known[word][:_OVERLOADS]:
                yield definition
                waiting.append(definition.text)


def _definitions(path: str, source: str) -> Iterator[_Definition]:
    for node in find(parse(path, source).root, *_DEFINITIONS):
        if node.child_by_field_name("body") is None or _inside_definition(node):
            continue
        name = _name(node)
        if name:
            outer = _with_template(node)
            yield _Definition(path, name, line_of(outer), text_of(outer))


def _name(node: Node) -> str:
    if node.type != "function_definition":
        return text_of(node.child_by_field_name("name")).partition("<")[0]
    declarator = node.child_by_field_name("declarator")
    while declarator is not None and declarator.type not in ("identifier", "field_identifier"):
        declarator = declarator.child_by_field_name("declarator") or declarator.child_by_field_name(
            "name"
        )
    return text_of(declarator)


def _inside_definition(node: Node) -> bool:
    """Members of a class and local types belong to what they lie in."""
    parent = node.parent
    while parent is not None:
        if parent.type in _DEFINITIONS:
            return True
        parent = parent.parent
    return False


def _with_template(node: Node) -> Node:
    parent = node.parent
    return parent if parent is not None and parent.type == "template_declaration" else node
