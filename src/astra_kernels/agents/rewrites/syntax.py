"""Syntax trees of CUDA C++ and the few questions that rewrites ask them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

import tree_sitter_cuda
from tree_sitter import Language, Node, Parser

_PARTS = ("parenthesized_expression", "field_expression", "subscript_expression")

__all__ = ["Node", "Unit"]


@dataclass(frozen=True, eq=False)
class Unit:
    """One parsed file; ``root`` covers ``text``, which is UTF-8."""

    path: str
    text: bytes
    root: Node


def words(text: str) -> frozenset[str]:
    """Returns the set of the words in a text: for tables of names."""
    return frozenset(text.split())


@lru_cache(maxsize=256)
def parse(path: str, source: str) -> Unit:
    """Parses one file. Never fails: what cannot be parsed becomes error nodes."""
    text = source.encode()
    return Unit(path, text, Parser(Language(tree_sitter_cuda.language())).parse(text).root_node)


def walk(node: Node) -> Iterator[Node]:
    """Yields a node and all its descendants, parents first, in source order."""
    stack = [node]
    while stack:
        current = stack.pop()
        yield current
        stack.extend(reversed(current.children))


def find(node: Node, *types: str) -> Iterator[Node]:
    """Yields the descendants of these types, the node itself included."""
    return (found for found in walk(node) if found.type in types)


def text_of(node: Node | None) -> str:
    """Returns a node's source text, or nothing for no node."""
    return "" if node is None or node.text is None else node.text.decode()


def line_of(node: Node) -> int:
    """Returns the line a node starts on, from 1."""
    return int(node.start_point.row) + 1


def depth_of(node: Node) -> int:
    """Returns how many ancestors a node has."""
    depth, parent = 0, node.parent
    while parent is not None:
        depth, parent = depth + 1, parent.parent
    return depth


def ancestors(node: Node) -> Iterator[Node]:
    """Yields the parents of a node, the nearest first."""
    parent = node.parent
    while parent is not None:
        yield parent
        parent = parent.parent


def inside(node: Node, outer: Node) -> bool:
    """Tells whether a node lies within another one's text."""
    return outer.start_byte <= node.start_byte and node.end_byte <= outer.end_byte


def bare(node: Node) -> Node:
    """Returns the expression inside any parentheses."""
    while node.type == "parenthesized_expression" and len(node.named_children) == 1:
        node = node.named_children[0]
    return node


def callee(node: Node) -> str:
    """Returns the unqualified name that a call expression calls, or an empty string."""
    function = node.child_by_field_name("function")
    while function is not None and function.type in ("qualified_identifier", "template_function"):
        function = function.child_by_field_name("name")
    return text_of(function)


def arguments(node: Node) -> list[Node]:
    """Returns the argument expressions of a call, comments left out."""
    listed = node.child_by_field_name("arguments")
    return [] if listed is None else [a for a in listed.named_children if a.type != "comment"]


def is_reference(node: Node) -> bool:
    """Tells whether an expression initialises a reference."""
    parent = node.parent
    if parent is None or parent.type != "init_declarator":
        return False
    name = parent.child_by_field_name("declarator")
    return name is not None and name.type == "reference_declarator"


def is_unevaluated(node: Node) -> bool:
    """Tells whether an expression is named for its type or size only."""
    return any(outer.type in ("sizeof_expression", "decltype") for outer in ancestors(node))


def assignment_of(node: Node) -> Node | None:
    """Returns the assignment or increment that changes an expression or a member of it."""
    child, parent = node, node.parent
    while parent is not None and parent.type in _PARTS:
        if parent.type == "subscript_argument_list":
            return None
        child, parent = parent, parent.parent
    if parent is None:
        return None
    if parent.type == "assignment_expression":
        return parent if parent.child_by_field_name("left") == child else None
    return parent if parent.type == "update_expression" else None


def operator(node: Node) -> str:
    """Returns the operator of a unary, binary or assignment expression, or an empty string."""
    return text_of(node.child_by_field_name("operator"))


def operands(node: Node) -> tuple[Node, Node] | None:
    """Returns left and right of a binary or assignment expression."""
    left, right = node.child_by_field_name("left"), node.child_by_field_name("right")
    return None if left is None or right is None else (left, right)
