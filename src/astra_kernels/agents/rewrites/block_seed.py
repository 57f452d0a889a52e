"""The one number in the sources that decides how many threads a block has."""

from __future__ import annotations

import re
from dataclasses import dataclass

from astra_kernels.agents.rewrites.bounds import literal_value
from astra_kernels.agents.rewrites.launches import Launch, components
from astra_kernels.agents.rewrites.program import Refused
from astra_kernels.agents.rewrites.reach import Reachable
from astra_kernels.agents.rewrites.scope import Scope
from astra_kernels.agents.rewrites.syntax import (
    Node,
    Unit,
    arguments,
    bare,
    callee,
    line_of,
    operands,
    operator,
    text_of,
)

_DEPTH = 8


@dataclass(frozen=True, eq=False)
class Seed:
    """Where a block's size comes from.

    Attributes:
        unit: The file it stands in.
        node: The literal, or a macro's opaque value.
        size: Its value.
        names: The variables and macros between the literal and the launch.
        capped: Whether it only bounds a size that depends on arguments, as in ``min(1024, n)``.
        rows: Whether the block is 32 threads wide and the size sets how many warps it has.
    """

    unit: Unit
    node: Node
    size: int
    names: frozenset[str]
    capped: bool
    rows: bool


def seed_of(launch: Launch, reachable: Reachable) -> Seed | Refused:
    """Returns the number behind a launch's block size, or why there is none to change."""
    line = line_of(launch.block)
    parts = components(launch.block, launch.scope)
    if not parts:
        return Refused("the block is set piece by piece", line)
    rest = [part for part in parts[1:] if text_of(part) != "1"]
    finder = _Finder(reachable, launch.scope, launch.host.unit)
    if not rest:
        found = finder.find(parts[0], frozenset(), False)
    elif len(rest) == 1 and _value(parts[0], launch.scope) == 32:
        found = finder.warps(rest[0])
    else:
        return Refused("the block has several axes", line)
    if found is None or not 32 <= found.size <= 1024:
        return Refused(f"the block size {text_of(launch.block)} is no constant", line)
    return found


def _value(node: Node, scope: Scope) -> float | None:
    node = bare(node)
    found = scope.constant(text_of(node)) if node.type == "identifier" else None
    return literal_value(node if found is None or found.value is None else bare(found.value))


@dataclass(frozen=True, eq=False)
class _Finder:
    reachable: Reachable
    scope: Scope
    unit: Unit

    def find(self, node: Node, names: frozenset[str], capped: bool) -> Seed | None:
        """Follows variables, macros and ``min`` to a number."""
        node = bare(node)
        if len(names) > _DEPTH:
            return None
        number = literal_value(node)
        if number is not None:
            return Seed(self.unit, node, int(number), names, capped, rows=False)
        if node.type == "identifier":
            return self._named(text_of(node), names, capped)
        if node.type == "cast_expression":
            value = node.child_by_field_name("value")
            return None if value is None else self.find(value, names, capped)
        if node.type == "call_expression" and _function(node) == "min":
            seeds = [self.find(given, names, True) for given in arguments(node)]
            known = [seed for seed in seeds if seed is not None]
            return known[0] if len(known) == 1 else None
        return None

    def _named(self, name: str, names: frozenset[str], capped: bool) -> Seed | None:
        names = names | {name}
        found = self.scope.constant(name)
        if found is not None and found.value is not None:
            return self.find(found.value, names, capped)
        constants = self.reachable.constants.get(name, ())
        if name in self.scope.declared or len(constants) != 1:
            return None
        constant = constants[0]
        if constant.is_macro:
            text = re.sub(r"/[/*].*", "", text_of(constant.value)).strip()
            number = re.fullmatch(r"\(?\s*(\d+)\s*\)?", text)
            size = int(number[1]) if number else 0
            return Seed(constant.unit, constant.value, size, names, capped, rows=False)
        outer = _Finder(self.reachable, self.scope, constant.unit)
        return outer.find(constant.value, names, capped)

    def warps(self, node: Node) -> Seed | None:
        """Follows a number of warps, ``size / 32`` rounded up in any way, to the size."""
        node, names = bare(node), frozenset[str]()
        while node.type == "identifier":
            found = self.scope.constant(text_of(node))
            if found is None or found.value is None or len(names) > _DEPTH:
                return None
            names, node = names | {text_of(node)}, bare(found.value)
        given: tuple[Node, ...] = ()
        if node.type == "call_expression" and "div" in callee(node):
            given = tuple(arguments(node))
        elif node.type == "binary_expression" and operator(node) == "/":
            given = operands(node) or ()
        if len(given) != 2 or _value(given[1], self.scope) != 32:
            return None
        found_seed = self.find(_without_rounding(given[0]), names, False)
        if found_seed is None:
            return None
        seed = found_seed
        return Seed(seed.unit, seed.node, seed.size, seed.names, seed.capped, rows=True)


def _function(node: Node) -> str:
    """Returns the called name without namespace and template arguments."""
    return re.sub(r"<.*", "", text_of(node.child_by_field_name("function"))).rsplit("::", 1)[-1]


def _without_rounding(node: Node) -> Node:
    """Returns ``a`` of ``(a + 31)``."""
    inner = bare(node)
    sides = operands(inner)
    if inner.type == "binary_expression" and operator(inner) == "+" and sides is not None:
        return sides[0] if text_of(sides[1]) == "31" else inner
    return inner
