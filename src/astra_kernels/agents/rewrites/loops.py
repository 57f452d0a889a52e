"""Loops in which threads share out a range: each starts at its index and steps by their number."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass

from astra_kernels.agents.rewrites.bounds import literal_value, value_of
from astra_kernels.agents.rewrites.scope import Scope
from astra_kernels.agents.rewrites.syntax import (
    Node,
    bare,
    find,
    line_of,
    operands,
    operator,
    text_of,
)

_TEAMS = {
    ("threadIdx.x", "blockDim.x"): "block",
    ("blockDim.x*blockIdx.x+threadIdx.x", "blockDim.x*gridDim.x"): "grid",
    ("threadIdx.x%32", "32"): "warp",
    ("threadIdx.x&31", "32"): "warp",
}
_CAST = re.compile(r"(?:static_cast\s*<.*>|u?int(?:\d+_t)?|s?size_t|unsigned|long)")


@dataclass(frozen=True, eq=False)
class StridedLoop:
    """``for (T i = start; i < bound; i += step)`` shared out over a team of threads.

    Attributes:
        node: The ``for`` statement.
        index: The loop variable.
        index_type: Its type's text.
        start: Its first value.
        bound: The exclusive upper bound.
        step: What is added to it.
        body: The statement that is repeated.
        team: Who shares the range: the threads of a ``block``, ``warp`` or the whole ``grid``.
        scale: What the step is a multiple of besides the number of threads, or an empty string.
    """

    node: Node
    index: str
    index_type: str
    start: Node
    bound: Node
    step: Node
    body: Node
    team: str
    scale: str


@dataclass(frozen=True)
class NotStrided:
    """Why a loop is not of this kind."""

    reason: str
    line: int


def canonical(node: Node, scope: Scope) -> str:
    """Returns an expression with variables, casts and parentheses resolved, without blanks.

    A variable that stands for anything but arithmetic on numbers and indices keeps its name.
    """
    name = text_of(bare(node))
    node = value_of(node, scope)
    if bare(node).type == "identifier":
        return _outer_number(node, scope)
    if node.type == "cast_expression":
        inner = node.child_by_field_name("value")
        return name if inner is None else canonical(inner, scope)
    if node.type == "call_expression":
        given = node.child_by_field_name("arguments")
        if is_cast(node) and given is not None:
            return canonical(given.named_children[0], scope)
    number = literal_value(node)
    if number is not None:
        return f"{number:g}"
    sides = operands(node)
    if node.type == "binary_expression" and sides is not None:
        sign = operator(node)
        parts = [canonical(side, scope) for side in sides]
        return sign.join(sorted(parts) if sign in "+*" else parts)
    return re.sub(r"\s+", "", text_of(node) if node.type == "field_expression" else name)


def is_cast(call: Node) -> bool:
    """Tells whether a call is a cast between numbers, or of a pointer, of one argument."""
    given = call.child_by_field_name("arguments")
    called = text_of(call.child_by_field_name("function"))
    return bool(_CAST.fullmatch(called)) and given is not None and len(given.named_children) == 1


def _outer_number(node: Node, scope: Scope) -> str:
    """Returns the number that a constant outside the function stands for, or its name."""
    name = text_of(node)
    outer = scope.outer_constant(name)
    match = re.fullmatch(r"\(?(\d+)\)?", text_of(outer.value).strip()) if outer else None
    return name if match is None else match[1]


def strided(node: Node, scope: Scope, offset: bool = False) -> StridedLoop | NotStrided:
    """Recognises a loop, or says what is in the way.

    Args:
        node: A ``for`` statement.
        scope: The declarations of the function around it.
        offset: Whether the first thread may start at a number other than 0.
    """
    line = line_of(node)
    parts = _header(node)
    if parts is None:
        return NotStrided("the loop is not of the form for (T i = a; i < n; i += s)", line)
    index, index_type, start, bound, step = parts
    body = node.child_by_field_name("body")
    origin = canonical(start, scope)
    if offset:
        own = [term for term in start_terms(start, scope) if "threadIdx.x" in term]
        origin = own[0] if len(own) == 1 else origin
    stride, scale = canonical(step, scope), ""
    first, each = _factors(origin, "threadIdx.x"), _factors(stride, "blockDim.x")
    if each and "threadIdx.x" in origin.split("*") and not Counter(first) - Counter(each):
        origin, stride, scale = "threadIdx.x", "blockDim.x", "*".join(each)
    team = _TEAMS.get((origin, stride))
    if team is None and origin == "threadIdx.x" and not scale and _is_width(step, scope):
        team = "block"
    if team is None or body is None:
        where = f"starts at {text_of(start)} and steps by {text_of(step)}"
        return NotStrided(f"the loop {where}: not one element a thread", line)
    found = StridedLoop(node, index, index_type, start, bound, step, body, team, scale)
    writes = find(body, "assignment_expression", "update_expression")
    changed = next((n for n in writes if _written(n) == index), None)
    if changed is not None:
        return NotStrided(f"the loop changes {index} itself", line_of(changed))
    return found


def _factors(product: str, without: str) -> list[str]:
    """Returns the factors of a canonical product besides the one given, if all are plain names."""
    factors = product.split("*")
    if without not in factors or not all(
        f.replace(".", "").isidentifier() or f.isdigit() for f in factors
    ):
        return []
    factors.remove(without)
    return factors


def start_terms(start: Node, scope: Scope) -> list[str]:
    """Returns the canonical terms of a start value if all but the thread's own are uniform."""
    sides = operands(bare(start))
    if sides is None or operator(bare(start)) != "+":
        return [canonical(start, scope)]
    own = [canonical(side, scope) for side in sides]
    others = [s for s, text in zip(sides, own, strict=True) if "threadIdx.x" not in text]
    uniform = all(is_uniform(side, scope, "block") for side in others)
    return own if uniform and len(others) == 1 else []


def _is_width(step: Node, scope: Scope) -> bool:
    """Tells whether a step is a named block size: a macro, template parameter or constexpr."""
    step = bare(step)
    if step.type != "identifier":
        return False
    name = text_of(step)
    found = scope.get(name)
    return (
        found is None
        or (found.value is None and not scope.assigned.get(name))
        or ("constexpr" in found.qualifiers)
    )


def _header(node: Node) -> tuple[str, str, Node, Node, Node] | None:
    initial = node.child_by_field_name("initializer")
    condition = node.child_by_field_name("condition")
    update = node.child_by_field_name("update")
    if initial is None or condition is None or update is None or initial.type != "declaration":
        return None
    declarators = initial.children_by_field_name("declarator")
    if len(declarators) != 1 or declarators[0].type != "init_declarator":
        return None
    name = text_of(declarators[0].child_by_field_name("declarator"))
    start = declarators[0].child_by_field_name("value")
    sides = operands(condition)
    if start is None or sides is None or operator(condition) != "<" or text_of(sides[0]) != name:
        return None
    step = _step(update, name)
    kind = text_of(initial.child_by_field_name("type"))
    qualified = any(child.type == "type_qualifier" for child in initial.children)
    if step is None or kind == "auto" or qualified or not name.isidentifier():
        return None
    return name, kind, start, sides[1], step


def _step(update: Node, name: str) -> Node | None:
    sides = operands(update)
    if update.type != "assignment_expression" or sides is None or text_of(sides[0]) != name:
        return None
    if operator(update) == "+=":
        return sides[1]
    total = operands(sides[1])
    if operator(update) == "=" and total is not None and operator(sides[1]) == "+":
        rest = [side for side in total if text_of(side) != name]
        return rest[0] if len(rest) == 1 else None
    return None


def _written(node: Node) -> str:
    return text_of(node.child_by_field_name("left") or node.child_by_field_name("argument"))


def is_uniform(node: Node, scope: Scope, team: str, depth: int = 0) -> bool:
    """Tells whether all threads of a team are sure to compute the same value."""
    if depth > 16:
        return False
    for leaf in find(node, "identifier", "field_expression", "call_expression"):
        if leaf.type == "field_expression":
            base = text_of(leaf.child_by_field_name("argument"))
            if base == "threadIdx" and not _same_in_team(leaf, team, scope):
                return False
            if base == "blockIdx" and team == "grid":
                return False
        elif leaf.type == "call_expression":
            name = text_of(leaf.child_by_field_name("function"))
            if "shfl" in name or "atomic" in name or name.startswith("clock"):
                return False
        elif not _name_is_uniform(text_of(leaf), scope, team, depth):
            return False
    return True


def _same_in_team(leaf: Node, team: str, scope: Scope) -> bool:
    if text_of(leaf.child_by_field_name("field")) != "x":
        return team != "grid"
    parent = leaf.parent
    if team != "warp" or parent is None or parent.type != "binary_expression":
        return False
    sides = operands(parent)
    if sides is None:
        return False
    return (operator(parent), canonical(sides[1], scope)) in ((">>", "5"), ("/", "32"))


def _name_is_uniform(name: str, scope: Scope, team: str, depth: int) -> bool:
    found = scope.declared.get(name)
    if name in ("threadIdx", "blockIdx", "blockDim", "gridDim") or found is None:
        return True
    values = [one.value for one in found if one.value is not None]
    for node in find(scope.function.body, "assignment_expression", "update_expression"):
        target = node.child_by_field_name("left") or node.child_by_field_name("argument")
        if text_of(target) == name:
            right = node.child_by_field_name("right")
            if right is None:
                return False
            values.append(right)
    return all(is_uniform(value, scope, team, depth + 1) for value in values)
