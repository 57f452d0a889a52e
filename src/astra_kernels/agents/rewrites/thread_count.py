"""The most threads that a launch can give a block, as far as the host code proves."""

from __future__ import annotations

import re

from astra_kernels.agents.rewrites.bounds import literal_value
from astra_kernels.agents.rewrites.launches import Launch, OpaqueLaunch, components, launches
from astra_kernels.agents.rewrites.program import Refused
from astra_kernels.agents.rewrites.reach import Function, Reachable
from astra_kernels.agents.rewrites.scope import Scope
from astra_kernels.agents.rewrites.syntax import (
    Node,
    arguments,
    bare,
    callee,
    find,
    is_reference,
    line_of,
    operands,
    operator,
    text_of,
)

_ROUNDS_UP = re.compile(r"ceil_?div|div_?up|div_?ceil|divup|cdiv|up_?div", re.IGNORECASE)
_DEPTH = 12
_LIMIT = 1024


def most_threads(kernel: Function, reachable: Reachable) -> int | Refused:
    """Returns the size of the largest block in which the entry launches a kernel."""
    sizes: list[int] = []
    for launch in launches(reachable):
        if isinstance(launch, OpaqueLaunch):
            return Refused(launch.reason, launch.line)
        if launch.kernel != kernel.name:
            continue
        size = _size(launch, reachable)
        if isinstance(size, Refused):
            return size
        sizes.append(size)
    if not sizes:
        return Refused(f"no launch of {kernel.name} is in reach", kernel.line)
    return max(sizes)


def _size(launch: Launch, reachable: Reachable) -> int | Refused:
    parts = components(launch.block, launch.scope)
    line = line_of(launch.block)
    if not parts:
        return Refused("the block is set piece by piece", line)
    size = 1
    for part in parts:
        most = upper_bound(part, launch.scope, reachable)
        if most is None:
            return Refused(f"the block size {text_of(launch.block)} has no known limit", line)
        size *= most
    if not 1 <= size <= _LIMIT:
        return Refused(f"a block of up to {size} threads is no block", line)
    return size


def upper_bound(node: Node, scope: Scope, reachable: Reachable, depth: int = 0) -> int | None:
    """Returns a number that a count in host code cannot exceed, or None where none is known."""
    node = bare(node)
    if depth > _DEPTH:
        return None
    number = literal_value(node)
    if number is not None:
        return int(number)
    if node.type == "identifier":
        return _named(text_of(node), scope, reachable, depth)
    if node.type == "cast_expression":
        value = node.child_by_field_name("value")
        return None if value is None else upper_bound(value, scope, reachable, depth + 1)
    if node.type == "call_expression":
        return _called(node, scope, reachable, depth)
    if node.type == "conditional_expression":
        given = [c for c in node.named_children if c.type != "comment"][1:]
    else:
        given = list(operands(node) or ())
    bounds = [upper_bound(part, scope, reachable, depth + 1) for part in given]
    left, right = bounds if len(bounds) == 2 else (None, None)
    if left is None:
        return None
    if operator(node) == "/":
        divisor = literal_value(_constant(given[1], scope))
        return int(left // divisor) if divisor else left if right else None
    if right is None:
        return None
    if node.type == "conditional_expression":
        return max(left, right)
    return {"+": left + right, "*": left * right}.get(operator(node))


def _constant(node: Node, scope: Scope) -> Node:
    """Returns the value of a variable that never changes, else the expression; outer ones too."""
    node = bare(node)
    found = scope.constant(text_of(node)) if node.type == "identifier" else None
    if found is not None and found.value is not None:
        return bare(found.value)
    outer = scope.outer_constant(text_of(node)) if node.type == "identifier" else None
    return node if outer is None or outer.is_macro else bare(outer.value)


def _named(name: str, scope: Scope, reachable: Reachable, depth: int) -> int | None:
    found = scope.constant(name)
    if found is not None:
        known = found.value is not None and not found.array and not _has_another_name(name, scope)
        value = found.value if known else None
        return None if value is None else upper_bound(value, scope, reachable, depth + 1)
    outer = scope.outer_constant(name)
    if outer is None:
        return None
    if not outer.is_macro:
        return upper_bound(outer.value, scope, reachable, depth + 1)
    match = re.fullmatch(r"\(?\s*(\d+)\s*\)?", re.sub(r"/[/*].*", "", text_of(outer.value)).strip())
    return int(match[1]) if match else None


def _has_another_name(name: str, scope: Scope) -> bool:
    """Tells whether a variable may change by way of a reference to it."""
    host = scope.reachable.host
    takers = {f.name for f in host if "&" in f.head and f.node != scope.function.node}
    for leaf in find(scope.function.body, "identifier"):
        if text_of(leaf) != name or leaf.parent is None:
            continue
        call = leaf.parent.parent if leaf.parent.type == "argument_list" else None
        if is_reference(leaf) or (call is not None and callee(call) in takers):
            return True
    return False


def _called(node: Node, scope: Scope, reachable: Reachable, depth: int) -> int | None:
    name, given = callee(node), arguments(node)
    function = text_of(node.child_by_field_name("function"))
    bounds = [upper_bound(part, scope, reachable, depth + 1) for part in given]
    known = [bound for bound in bounds if bound is not None]
    if name == "min":
        return min(known, default=None)
    if name == "max":
        return max(known) if known and len(known) == len(bounds) else None
    if _ROUNDS_UP.search(name) and len(given) == 2 and bounds[0] is not None:
        divisor = literal_value(_constant(given[1], scope))
        return int(-(-bounds[0] // divisor)) if divisor else None
    cast = function.startswith("static_cast") or name in ("int", "unsigned", "size_t", "uint32_t")
    return bounds[0] if cast and len(bounds) == 1 else None
