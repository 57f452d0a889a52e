"""Syntax trees of CUDA C++: what a file defines, and with which words."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache

import tree_sitter_cuda
from tree_sitter import Language, Node, Parser

WORD = re.compile(r"[A-Za-z_]\w*")
_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
_DEFINING = ("function_definition", "class_specifier", "struct_specifier", "enum_specifier")
_CLASSES = ("class_specifier", "struct_specifier")
_NAMESPACE = "namespace_definition"


@dataclass(frozen=True)
class Parameter:
    """One parameter: its type without the name, white space normalised, and its name."""

    type: str
    name: str
    default: str = ""
    """As it stands behind the `=`."""


@dataclass(frozen=True)
class Function:
    """A function that is defined in a file; `start` and `end` are bytes, template head included."""

    name: str
    namespace: str
    path: str
    line: int
    parameters: tuple[Parameter, ...]
    returns: str
    text: str
    template: str = ""
    """`<typename T, int N>` of a function template."""

    @property
    def qualified(self) -> str:
        """With its namespace; an unnamed one counts for nothing."""
        return f"{self.namespace}::{self.name}" if self.namespace else self.name

    @property
    def place(self) -> str:
        """`file:line`."""
        return f"{self.path}:{self.line}"

    @property
    def kernel(self) -> bool:
        """Whether it is a `__global__` function."""
        return "__global__" in self.returns

    @property
    def signature(self) -> str:
        """On one line."""
        listed = ", ".join(f"{p.type} {p.name}".strip() for p in self.parameters)
        return f"{self.qualified}({listed})"


@lru_cache(maxsize=512)
def parse(text: str) -> Node:
    """The syntax tree of a file. Never fails: what cannot be parsed becomes error nodes."""
    return Parser(Language(tree_sitter_cuda.language())).parse(text.encode()).root_node


def walk(node: Node) -> Iterator[Node]:
    """A node and all its descendants, parents first, in source order."""
    stack = [node]
    while stack:
        current = stack.pop()
        yield current
        stack.extend(reversed(current.children))


def text_of(node: Node | None) -> str:
    """A node's source text, or nothing for no node."""
    return "" if node is None or node.text is None else node.text.decode()


def without_comments(text: str) -> str:
    """The text without comments."""
    return _COMMENT.sub(" ", text)


def words(text: str) -> frozenset[str]:
    """All identifiers of a text, those in comments left out."""
    return frozenset(WORD.findall(without_comments(text)))


def functions(text: str, path: str) -> Iterator[Function]:
    """Every function that a file defines, at the top level or in namespaces, and static ones of classes."""
    for node, namespace in _items(parse(text), ""):
        inner = node
        template = ""
        if node.type == "template_declaration":
            template = text_of(node.child_by_field_name("parameters"))
            inner = next((c for c in node.children if c.type == "function_definition"), node)
        if inner.type == "function_definition":
            found = _function(inner, namespace, path)
            if found is not None:
                yield replace(found, line=int(node.start_point.row) + 1, template=template)


def variables(text: str) -> frozenset[str]:
    """Variables of a file that can change: those at the top level or in namespaces that are neither const nor elsewhere's."""
    found: set[str] = set()
    for node, _ in _items(parse(text), ""):
        if node.type != "declaration":
            continue
        qualifiers = text_of(node).partition("=")[0].partition("{")[0]
        if re.search(r"\b(?:const|constexpr|extern|using|typedef)\b", qualifiers):
            continue
        for declarator in node.children_by_field_name("declarator"):
            if any(n.type == "function_declarator" for n in walk(declarator)):
                continue
            head = text_of(declarator).partition("=")[0].partition("[")[0].partition("{")[0]
            found |= set(WORD.findall(head)[-1:])
    return frozenset(found)


def members(text: str, path: str) -> Iterator[tuple[str, Function]]:
    """Functions that are defined inside of classes, with the name of the class; lines are theirs."""
    for item, namespace in _items(parse(text), ""):
        node = item
        if item.type == "template_declaration":
            node = next((c for c in item.children if c.type in _CLASSES), item)
        if node.type not in _CLASSES:
            continue
        owner = text_of(node.child_by_field_name("name")).partition("<")[0]
        body = node.child_by_field_name("body")
        for child in body.children if body is not None else ():
            if child.type == "function_definition":
                found = _function(child, namespace, path)
                if found is not None:
                    yield owner, found


def _items(node: Node, namespace: str) -> Iterator[tuple[Node, str]]:
    for child in node.children:
        if child.type == _NAMESPACE:
            name = text_of(child.child_by_field_name("name"))
            inside = "::".join(part for part in (namespace, name) if part)
            body = child.child_by_field_name("body")
            if body is not None:
                yield from _items(body, inside)
        elif child.type in ("linkage_specification", "declaration_list") or child.type.startswith(
            "preproc_if"
        ):
            yield from _items(child, namespace)
        else:
            yield child, namespace


def _function(node: Node, namespace: str, path: str) -> Function | None:
    declarator = next((n for n in walk(node) if n.type == "function_declarator"), None)
    body = node.child_by_field_name("body")
    if declarator is None or body is None or declarator.start_byte > body.start_byte:
        return None
    name = text_of(declarator.child_by_field_name("declarator"))
    scope, _, last = name.rpartition("::")
    if not last.isidentifier():
        return None
    given = declarator.child_by_field_name("parameters")
    head = (node.text or b"")[: declarator.start_byte - node.start_byte].decode()
    return Function(
        name=last,
        namespace="::".join(part for part in (namespace, scope) if part),
        path=path,
        line=int(node.start_point.row) + 1,
        parameters=tuple(_parameters(given)),
        returns=" ".join(head.split()),
        text=text_of(node),
    )


def _parameters(node: Node | None) -> Iterator[Parameter]:
    for child in node.children if node is not None else ():
        if child.type not in ("parameter_declaration", "optional_parameter_declaration"):
            continue
        declared, _, default = without_comments(text_of(child)).partition("=")
        text = " ".join(declared.split())
        found = re.fullmatch(r"(.*?)(\w+)((?:\[\w*\])?)", text)
        if found is None or not found[1].strip():
            yield Parameter(text, "")
        else:
            kind = " ".join((found[1] + ("*" if found[3] else "")).split())
            yield Parameter(kind, found[2], default.strip())


def _outside_bodies(node: Node) -> Iterator[Node]:
    """All nodes but those inside functions."""
    yield node
    for child in node.children:
        if child.type != "compound_statement":
            yield from _outside_bodies(child)


def declared(text: str) -> frozenset[str]:
    """Names of everything that a header makes known: functions, classes, aliases, macros, constants."""
    found: set[str] = set()
    for node in _outside_bodies(parse(text)):
        if node.type in ("preproc_def", "preproc_function_def"):
            found.add(text_of(node.child_by_field_name("name")))
        elif node.type in (
            *_DEFINING,
            "alias_declaration",
            "type_definition",
            "concept_definition",
        ):
            name = node.child_by_field_name("name") or node.child_by_field_name("declarator")
            found |= set(WORD.findall(text_of(name).partition("(")[0])[-1:])
        elif node.type == "function_declarator":
            found |= set(WORD.findall(text_of(node.child_by_field_name("declarator")))[-1:])
        elif node.type in ("init_declarator", "enumerator"):
            name = node.child_by_field_name("declarator") or node.child_by_field_name("name")
            found |= set(WORD.findall(text_of(name))[-1:])
    return frozenset(found - {""})
