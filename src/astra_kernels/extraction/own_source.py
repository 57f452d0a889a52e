"""A function of a Python file, with what it needs of that file, as it stands there."""

from __future__ import annotations

import ast
import builtins
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

_ALLOWED = frozenset(
    {"__future__", "collections", "dataclasses", "einops", "enum", "functools", "itertools", "math", "numpy", "torch", "typing"}
)  # fmt: skip
"""Packages that a reference may import. The framework's own is not one: it computes what is to be checked."""


@dataclass(frozen=True)
class Taken:
    """A function and its text."""

    function: ast.FunctionDef
    text: str
    """Imports, constants, helpers and the function, in the file's order."""
    head: tuple[str, ...]
    """The comment that the file begins with, such as its licence."""


@dataclass(frozen=True)
class Module:
    """A Python file."""

    path: str
    text: str
    tree: ast.Module

    @cached_property
    def functions(self) -> dict[str, ast.FunctionDef]:
        """Those at the top level that are no tests."""
        return {
            n.name: n
            for n in self.tree.body
            if isinstance(n, ast.FunctionDef) and not n.name.startswith("test")
        }

    def called_beside(self, symbol: str) -> Iterator[str]:
        """Functions of this file that a test or benchmark calls which calls the operator too."""
        for node in self.tree.body:
            if isinstance(node, ast.FunctionDef) and symbol in _mentioned(node):
                yield from (n for n in self.functions if n in _mentioned(node) and n != node.name)

    def taken(self, name: str, symbol: str) -> Taken | None:
        """A function with what it needs; None where that is more than this file and known packages have.

        Args:
            name: of the function.
            symbol: the operator's; a function that calls it is no reference.
        """
        needed, asked = {name}, [name]
        while asked:
            node = self._defined.get(asked.pop())
            if node is None or symbol in _attributes(node):
                return None
            if not all(_allowed(n) for n in _imports(node)):
                return None
            if isinstance(node, (ast.Import, ast.ImportFrom)):
                continue
            for used in sorted(_names(node) & self._defined.keys() - needed):
                needed.add(used)
                asked.append(used)
            if _names(node) - self._defined.keys() - _bound(node) - vars(builtins).keys():
                return None
        if not isinstance(function := self._defined[name], ast.FunctionDef):
            return None
        nodes = {id(self._defined[n]): self._defined[n] for n in needed}
        text = "\n\n".join(self._source(n) for n in sorted(nodes.values(), key=_line))
        return Taken(function, text, self._head)

    @cached_property
    def _defined(self) -> dict[str, ast.stmt]:
        """What binds each name of the file."""
        found: dict[str, ast.stmt] = {}
        for node in self.tree.body:
            found |= dict.fromkeys(_binds(node), node)
        return found

    @property
    def _head(self) -> tuple[str, ...]:
        lines = []
        for line in self.text.splitlines():
            if not line.startswith("#"):
                break
            lines.append(line)
        return tuple(line for line in lines if not line.startswith("#!"))

    def _source(self, node: ast.stmt) -> str:
        """The text of a statement, decorators left out: they are of the test's framework or compile."""
        assert node.end_lineno is not None
        return "\n".join(self.text.splitlines()[node.lineno - 1 : node.end_lineno])


def _line(node: ast.stmt) -> int:
    return node.lineno


def _binds(node: ast.stmt) -> Iterator[str]:
    match node:
        case ast.FunctionDef(name=name) | ast.ClassDef(name=name):
            yield name
        case ast.Assign(targets=targets):
            yield from (n.id for t in targets for n in ast.walk(t) if isinstance(n, ast.Name))
        case ast.AnnAssign(target=ast.Name(id=name)):
            yield name
        case ast.Import(names=names) | ast.ImportFrom(names=names):
            yield from (a.asname or a.name.partition(".")[0] for a in names)


def _imports(node: ast.stmt) -> Iterator[ast.Import | ast.ImportFrom]:
    yield from (n for n in ast.walk(node) if isinstance(n, (ast.Import, ast.ImportFrom)))


def _allowed(node: ast.Import | ast.ImportFrom) -> bool:
    if isinstance(node, ast.ImportFrom):
        return not node.level and (node.module or "").partition(".")[0] in _ALLOWED
    return all(a.name.partition(".")[0] in _ALLOWED for a in node.names)


def _body(node: ast.stmt) -> Iterator[ast.AST]:
    """Everything in a statement but its decorators."""
    decorators = {id(d) for d in getattr(node, "decorator_list", ())}
    left: list[ast.AST] = [node]
    while left:
        here = left.pop()
        yield here
        left += [n for n in ast.iter_child_nodes(here) if id(n) not in decorators]


def _names(node: ast.stmt) -> set[str]:
    """Names that are read."""
    return {n.id for n in _body(node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load)}


def _bound(node: ast.stmt) -> set[str]:
    """Names that a statement binds inside of itself: parameters, variables, helpers, loops."""
    found = set(_binds(node))
    for n in _body(node):
        match n:
            case ast.arg(arg=name) | ast.FunctionDef(name=name) | ast.ClassDef(name=name):
                found.add(name)
            case ast.Name(id=name, ctx=ast.Store()):
                found.add(name)
            case ast.Import() | ast.ImportFrom():
                found |= set(_binds(n))
            case ast.ExceptHandler(name=str(name)):
                found.add(name)
    return found


def _attributes(node: ast.stmt) -> set[str]:
    """Names and attributes, such as the operator's in `torch.ops.engine.rms_norm`; not the function's own."""
    return {n.attr for n in _body(node) if isinstance(n, ast.Attribute)} | _names(node)


def _mentioned(node: ast.FunctionDef) -> set[str]:
    """Names and attributes, those in the decorators as well: a test may get both functions as parameters."""
    names = {n.id for n in ast.walk(node) if isinstance(n, ast.Name)}
    return names | {n.attr for n in ast.walk(node) if isinstance(n, ast.Attribute)}
