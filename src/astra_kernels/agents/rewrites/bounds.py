"""What can be proven about the value of a float expression without running it."""

from __future__ import annotations

from astra_kernels.agents.rewrites.scope import Scope, literal_kind
from astra_kernels.agents.rewrites.syntax import (
    Node,
    arguments,
    bare,
    callee,
    operands,
    operator,
    text_of,
    words,
)

_EXPONENTIALS = words("expf __expf exp exp2f exp2 ptx_exp2 __exp2f")
_DEPTH = 8  # of variables followed to their initialisers


def value_of(node: Node, scope: Scope, depth: int = 0) -> Node:
    """Returns the initialiser of a variable that never changes, else the bare expression."""
    node = bare(node)
    if node.type != "identifier" or depth >= _DEPTH:
        return node
    found = scope.constant(text_of(node))
    if found is None or found.value is None or found.value.type == "argument_list":
        return node
    return value_of(found.value, scope, depth + 1)


def is_number(node: Node, value: float) -> bool:
    """Tells whether an expression is the literal ``value``, as a float, double or int."""
    number = literal_value(bare(node))
    return number is not None and number == value


def literal_value(node: Node) -> float | None:
    """Returns the value of a number literal, or None for anything else."""
    if node.type != "number_literal":
        return None
    text = text_of(node).replace("'", "").lower()
    try:
        if literal_kind(text) == "int":
            return float(int(text.rstrip("ul"), 0))
        return float.fromhex(text.rstrip("fl")) if "0x" in text else float(text.rstrip("fl"))
    except ValueError:
        return None


def not_negative(node: Node, scope: Scope) -> bool:
    """Tells whether a value is proven to be at least zero, or NaN."""
    node = value_of(node, scope)
    number = literal_value(node)
    if number is not None:
        return number >= 0
    if node.type == "call_expression":
        return callee(node) in _EXPONENTIALS | {"fabsf", "fabs", "sqrtf", "sqrt"}
    sides = operands(node)
    if node.type != "binary_expression" or sides is None:
        return False
    left, right = sides
    if operator(node) == "*" and text_of(bare(left)) == text_of(bare(right)):
        return bare(left).type == "identifier"
    return operator(node) in "+*" and not_negative(left, scope) and not_negative(right, scope)


def at_least_one(node: Node, scope: Scope) -> bool:
    """Tells whether a value is proven to be at least one, infinity, or NaN: ``1 + exp(..)``."""
    node = value_of(node, scope)
    number = literal_value(node)
    if number is not None:
        return number >= 1
    sides = operands(node)
    if node.type != "binary_expression" or operator(node) != "+" or sides is None:
        return False
    return any(
        at_least_one(one, scope) and not_negative(other, scope)
        for one, other in (sides, sides[::-1])
    )


def is_count(node: Node, scope: Scope) -> bool:
    """Tells whether a value was an integer: zero, or between 1 and 2^64 in size."""
    node = value_of(node, scope)
    if scope.kind(node) == "int":
        return True
    if node.type == "cast_expression":
        inner = node.child_by_field_name("value")
        return inner is not None and scope.kind(inner) == "int"
    if node.type == "call_expression" and callee(node) in ("float", "static_cast"):
        given = arguments(node)
        return len(given) == 1 and scope.kind(given[0]) == "int"
    number = literal_value(node)
    return number is not None and 1 <= abs(number) < 2.0**64
