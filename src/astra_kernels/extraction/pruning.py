"""A source without what one operator does not need: other operators, registrations, unused definitions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from tree_sitter import Node

from astra_kernels.extraction.syntax import WORD, parse, text_of, walk, words

_KEPT = frozenset(
    {
        "preproc_include",
        "using_declaration",
        "preproc_call",
        "namespace_alias_definition",
        "comment",
    }
)
_INSIDE = frozenset({"namespace_definition", "linkage_specification"})
_REGISTRATIONS = ("TVM_FFI_", "TORCH_LIBRARY", "PYBIND11_MODULE", "REGISTER_EXTENSION")


@dataclass(frozen=True)
class _Item:
    """A definition: its bytes, what it makes known, and what it mentions."""

    start: int
    end: int
    names: frozenset[str]
    words: frozenset[str]


def pruned(text: str, wanted: Iterable[str]) -> str:
    """The file with those definitions only that `wanted` names need, directly or not; the rest is as it was.

    Args:
        text: the file.
        wanted: names of functions.
    """
    data = text.encode()
    items = list(_items(parse(text)))
    needed = set(wanted) | _called_at_the_top(parse(text))
    kept: set[_Item] = set()
    while True:
        more = {i for i in items if i not in kept and i.names & needed}
        if not more:
            break
        kept |= more
        for item in more:
            needed |= item.words
    for item in sorted((i for i in items if i not in kept), key=lambda i: i.start, reverse=True):
        before = data[: item.start].rstrip(b" \t")
        between = b"\n" if before and not before.endswith(b"\n") else b""
        data = before + between + data[item.end :].lstrip(b"\n")
    return _squeezed(data.decode())


def _trails(comment: Node) -> bool:
    """Whether it belongs to what ends on its line, as `}  // namespace engine` does."""
    before = comment.prev_sibling or comment.parent
    if before is None or before is comment.parent:
        return False
    return before.end_point.row == comment.start_point.row


def _called_at_the_top(node: Node) -> set[str]:
    """Macros that stand alone between definitions, such as `DEFINE_OPERATOR(scale)`: they stay, so what they are stays."""
    found: set[str] = set()
    for child in node.children:
        if child.type in _INSIDE and (body := child.child_by_field_name("body")) is not None:
            found |= _called_at_the_top(body)
        elif child.type == "expression_statement" and not text_of(child).startswith(_REGISTRATIONS):
            found |= words(text_of(child))
    return found


def _items(node: Node) -> Iterator[_Item]:
    comment: Node | None = None
    for child in node.children:
        if child.type == "comment":
            comment = comment or (None if _trails(child) else child)
            continue
        if child.type in _INSIDE:
            body = child.child_by_field_name("body")
            if body is not None and body.type == "declaration_list":
                yield from _items(body)
                comment = None
                continue
        if child.is_named and child.type not in _KEPT and not child.type.startswith("preproc_if"):
            text = text_of(child)
            names = frozenset() if text.startswith(_REGISTRATIONS) else _names(child)
            registered = text.startswith(_REGISTRATIONS)
            if names or registered:
                start = child if comment is None or _is_head(comment) else comment
                end = _end(child)
                yield _Item(start.start_byte, end, names, words(text))
        comment = None


def _end(node: Node) -> int:
    """Where an item ends, with the semicolon and the comment that stand behind it."""
    last = node
    if last.next_sibling is not None and last.next_sibling.type == ";":
        last = last.next_sibling
    comment = last.next_sibling
    if comment is not None and comment.type == "comment" and _trails(comment):
        last = comment
    return last.end_byte


def _is_head(comment: Node) -> bool:
    """Whether it is the file's licence."""
    return comment.start_byte == 0 or "icense" in text_of(comment) or "opyright" in text_of(comment)


def _names(node: Node) -> frozenset[str]:
    """What an item defines; nothing for what is kept whatever happens."""
    inner = node
    if node.type == "template_declaration":
        inner = next(
            (c for c in node.children if c.is_named and c.type != "template_parameter_list"), node
        )
    if inner.type == "linkage_specification":  # of one definition, without braces
        inner = inner.child_by_field_name("body") or inner
    if inner.type in ("preproc_def", "preproc_function_def", "alias_declaration"):
        return _last(inner.child_by_field_name("name"))
    if inner.type == "function_definition":
        declarator = next((n for n in walk(inner) if n.type == "function_declarator"), None)
        if declarator is not None:
            return _last(declarator.child_by_field_name("declarator"))
    if inner.type in ("class_specifier", "struct_specifier", "enum_specifier", "type_definition"):
        name = inner.child_by_field_name("name") or inner.child_by_field_name("declarator")
        return _last(name)
    if inner.type == "declaration":
        found: set[str] = set()
        for declarator in inner.children_by_field_name("declarator"):
            head = text_of(declarator).partition("=")[0].partition("(")[0].partition("[")[0]
            found |= set(WORD.findall(head)[-1:])
        return frozenset(found)
    return frozenset()


def _last(node: Node | None) -> frozenset[str]:
    return frozenset(WORD.findall(text_of(node).partition("<")[0])[-1:])


def _squeezed(text: str) -> str:
    lines: list[str] = []
    for line in text.splitlines():
        if line.strip() or (lines and lines[-1].strip()):
            lines.append(line.rstrip() if not line.strip() else line)
    return "\n".join(lines).rstrip() + "\n"
