"""Every message that docs/faq.md quotes is one that the sources can still say."""

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

import astra_kernels

_VALUE = "\0"
_LEAST = 12
"""Fixed characters of a quotation; with fewer it would be found anywhere."""


def template(node: ast.AST) -> str | None:
    """The text of a string in the sources, with a mark for every value that is put into it."""
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, str) else None
    if isinstance(node, ast.JoinedStr):
        return "".join(
            str(part.value) if isinstance(part, ast.Constant) else _VALUE for part in node.values
        )
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        left, right = template(node.left), template(node.right)
        if left is None and right is None:
            return None
        return (left or _VALUE) + (right or _VALUE)
    return None


def said(tree: ast.AST) -> Iterator[str]:
    """The strings of a module that are no docstrings."""
    silent = {
        id(statement.value)
        for statement in ast.walk(tree)
        if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)
    }
    for node in ast.walk(tree):
        if id(node) not in silent:
            text = template(node)
            if text is not None:
                yield text


@cache
def templates() -> tuple[str, ...]:
    package = Path(astra_kernels.__file__).parent
    return tuple(t for path in package.rglob("*.py") for t in said(ast.parse(path.read_text())))


def can_be_said(quoted: str) -> bool:
    """Whether one string of the sources has the fixed parts of a quotation, in their order."""
    pattern = re.compile(
        ".*".join(re.escape(part.strip()) for part in quoted.split("...")), re.DOTALL
    )
    return any(pattern.search(text) for text in templates())


def quotations(page: str) -> list[str]:
    return re.findall(r"^\| `([^`]+)` \|", page, re.MULTILINE)


def messages(page: str) -> list[str]:
    """The quotations of tables that are headed as messages."""
    tables = re.findall(r"^\| message \|.*\n\|[-|]+\|\n((?:\|.*\n)+)", page, re.MULTILINE)
    return [quoted for table in tables for quoted in quotations(table)]


@pytest.fixture
def page(repository):
    return (repository / "docs" / "faq.md").read_text()


def test_the_sources_can_say_every_message(page):
    listed = messages(page)
    assert len(listed) > 50
    assert [m for m in listed if not can_be_said(m)] == []


def test_every_row_of_messages_is_a_quotation(page):
    rows = re.findall(r"^\| message \|.*\n\|[-|]+\|\n((?:\|.*\n)+)", page, re.MULTILINE)
    assert sum(len(table.splitlines()) for table in rows) == len(messages(page))


def test_quotations_say_enough_to_be_told_apart(page):
    assert all(len(m.replace("...", "").strip()) >= _LEAST for m in messages(page))


def test_a_message_that_nobody_says_is_found():
    assert can_be_said("unknown device ...: use sim:h200 or cuda:0 (or another ordinal)")
    assert not can_be_said("unknown device ...: use sim:h100 or cuda:0 (or another ordinal)")
    assert not can_be_said("use sim:h200 or cuda:0 ...: unknown device")


def test_every_outcome_is_explained(page):
    from astra_kernels.records import evaluation

    kinds = {
        member.outcome
        for member in vars(evaluation).values()
        if isinstance(getattr(member, "outcome", None), str)
    } - {"passed"}
    assert len(kinds) > 5
    assert [kind for kind in kinds if f"`{kind}`" not in page] == []
