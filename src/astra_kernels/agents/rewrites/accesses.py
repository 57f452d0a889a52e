"""Neighbouring elements: which memory accesses of a strided loop move one element per index."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from astra_kernels.agents.rewrites.loops import StridedLoop, is_uniform
from astra_kernels.agents.rewrites.scope import Declared, Scope
from astra_kernels.agents.rewrites.syntax import (
    Node,
    ancestors,
    arguments,
    assignment_of,
    bare,
    callee,
    find,
    inside,
    line_of,
    operands,
    operator,
    text_of,
    words,
)

_CACHED_LOADS = words("__ldg __ldcg __ldca __ldcs __ldlu __ldcv")
_BRANCHES = words(
    "if_statement for_statement while_statement do_statement switch_statement "
    "conditional_expression for_range_loop"
)
_FORBIDDEN = words(
    "break_statement return_statement goto_statement continue_statement lambda_expression "
    "preproc_if preproc_ifdef preproc_def gnu_asm_expression labeled_statement ERROR"
)
_COMMUTATIVE = words(
    "fmaxf fmax max fminf fmin min fmaf __fmaf_rn __fadd_rn __hmax __hmin __hadd __hfma "
    "__hmax2 __hmin2 __hadd2 __hfma2"
)
_TOGETHER = ("__sync", "shfl", "__ballot", "__any", "__all", "__match", "__reduce", "barrier")


@dataclass(frozen=True, eq=False)
class Access:
    """One appearance of ``base[rest + index]``, ``*(base + rest + index)`` or ``__ldg`` of it.

    Attributes:
        node: The expression that stands for the element.
        base: The pointer.
        rest: The terms of the offset that do not change in the loop, joined by their signs.
        address: The expression that gives the address, in terms of the index.
        reads: Whether the element's old value is used.
        writes: Whether it is assigned.
        always: Whether every iteration does it exactly as written, under no condition.
    """

    node: Node
    base: Declared
    rest: str
    address: str
    reads: bool
    writes: bool
    always: bool


@dataclass(frozen=True)
class Obstacle:
    """Why a loop cannot handle several neighbouring elements in one go."""

    reason: str
    line: int


def accesses(loop: StridedLoop, scope: Scope, loads: frozenset[str]) -> list[Access]:
    """Returns the loop's accesses to neighbouring elements, in source order.

    Args:
        loop: The loop.
        scope: The declarations of the function around it.
        loads: Macros that stand for a cached load.
    """
    found: list[Access] = []
    for node in find(loop.body, "subscript_expression", "pointer_expression", "call_expression"):
        access = _access(node, loop, scope, loads | _CACHED_LOADS)
        if access is not None and not any(inside(node, other.node) for other in found):
            found.append(access)
    return found


def _access(node: Node, loop: StridedLoop, scope: Scope, loads: frozenset[str]) -> Access | None:
    place = _address(node, loads)
    if place is None:
        return None
    base, terms = place
    declared = scope.get(text_of(base))
    if base.type != "identifier" or declared is None or not _is_plain_pointer(declared):
        return None
    rest = [(sign, term) for sign, term in terms if text_of(term) != loop.index]
    own = [sign for sign, term in terms if text_of(term) == loop.index]
    fixed = all(_is_fixed(term, loop, scope) for _, term in rest) and _is_fixed(base, loop, scope)
    if own != ["+"] or not fixed:
        return None
    joined = "".join(f" {sign} {text_of(term)}" for sign, term in rest)
    address = f"{text_of(base)}{joined}"
    reads, writes = _direction(node)
    return Access(node, declared, joined, address, reads, writes, _always(node, loop.body))


def _address(node: Node, loads: frozenset[str]) -> tuple[Node, list[tuple[str, Node]]] | None:
    """Splits an element expression into its pointer and the signed terms of its offset."""
    if node.type == "call_expression":
        given = arguments(node)
        if callee(node) not in loads or len(given) != 1:
            return None
        pointer = bare(given[0])
        if pointer.type == "pointer_expression" and text_of(pointer).startswith("&"):
            inner = pointer.child_by_field_name("argument")
            return None if inner is None else _subscript(inner)
        return _sum_with_pointer(pointer)
    parent = node.parent
    while parent is not None and parent.type == "parenthesized_expression":
        parent = parent.parent
    if parent is not None and parent.type == "pointer_expression" and operator(parent) == "&":
        return None
    if node.type == "subscript_expression":
        return _subscript(node)
    inner = node.child_by_field_name("argument")
    return _sum_with_pointer(bare(inner)) if inner is not None and operator(node) == "*" else None


def _subscript(node: Node) -> tuple[Node, list[tuple[str, Node]]] | None:
    base, indices = node.child_by_field_name("argument"), node.child_by_field_name("indices")
    if base is None or indices is None or len(indices.named_children) != 1:
        return None
    return base, _terms(indices.named_children[0])


def _sum_with_pointer(node: Node) -> tuple[Node, list[tuple[str, Node]]] | None:
    """Takes the first term of a sum as the pointer."""
    terms = _terms(node)
    return (terms[0][1], terms[1:]) if len(terms) > 1 and terms[0][0] == "+" else None


def _terms(node: Node, sign: str = "+") -> list[tuple[str, Node]]:
    """Returns the signed terms of a sum; parentheses that a minus precedes stay one term."""
    inner = bare(node) if sign == "+" else node
    sides = operands(inner)
    if inner.type == "binary_expression" and operator(inner) in ("+", "-") and sides is not None:
        return [*_terms(sides[0], sign), *_terms(sides[1], operator(inner))]
    return [(sign, inner if inner.type in ("identifier", "number_literal") else node)]


def _is_plain_pointer(declared: Declared) -> bool:
    odd = {"__shared__", "volatile"} & declared.qualifiers
    plain = declared.type.replace("::", "").replace(" ", "").isidentifier()
    return declared.is_pointer and not odd and plain and not declared.type.endswith("3")


def _is_fixed(node: Node, loop: StridedLoop, scope: Scope) -> bool:
    """Tells whether a term is the same in all iterations and for all threads of the team."""
    if any(find(node, "subscript_expression", "pointer_expression", "update_expression")):
        return False
    local = _declared_in(loop.body)
    names = {text_of(n) for n in find(node, "identifier")}
    if names & (local | _assigned_in(loop.body) | {loop.index}):
        return False
    return is_uniform(node, scope, loop.team)


def _declared_in(body: Node) -> set[str]:
    return {
        text_of(leaf)
        for node in find(body, "declaration")
        for declarator in node.children_by_field_name("declarator")
        for leaf in find(declarator, "identifier")
        if leaf.parent is not None and leaf.parent.type.endswith(("declarator", "declaration"))
    }


def _assigned_in(body: Node) -> set[str]:
    nodes = find(body, "assignment_expression", "update_expression")
    return {
        text_of(n.child_by_field_name("left") or n.child_by_field_name("argument")) for n in nodes
    }


def _direction(node: Node) -> tuple[bool, bool]:
    """Returns whether an element is read, and whether it is written."""
    change = None if node.type == "call_expression" else assignment_of(node)
    if change is None:
        return True, False
    whole = change.child_by_field_name("left")
    return operator(change) != "=" or whole is None or bare(whole) != node, True


def _always(node: Node, body: Node) -> bool:
    for outer in ancestors(node):
        if outer == body:
            return True
        if outer.type in _BRANCHES:
            return False
        if outer.type == "binary_expression" and operator(outer) in ("&&", "||"):
            return False
        if outer.type in ("sizeof_expression", "decltype"):
            return False
    return body == node


def obstacle(loop: StridedLoop, scope: Scope) -> Obstacle | None:
    """Returns what forbids handling neighbouring elements together, or None.

    The sum over elements may be reordered; nothing else may depend on which thread has which.
    """
    for node in find(loop.body, *_FORBIDDEN):
        return Obstacle(f"the loop contains {node.type.replace('_', ' ')}", line_of(node))
    for call in find(loop.body, "call_expression"):
        name = text_of(call.child_by_field_name("function"))
        if any(word in name for word in _TOGETHER):
            return Obstacle(f"the loop calls {name}", line_of(call))
    if not is_uniform(loop.bound, scope, loop.team) or any(
        find(loop.bound, "call_expression", "assignment_expression", "update_expression")
    ):
        return Obstacle("the loop's bound may differ between threads", line_of(loop.bound))
    if {text_of(n) for n in find(loop.bound, "identifier")} & _assigned_in(loop.body):
        return Obstacle("the loop changes its bound", line_of(loop.bound))
    return carried_values(loop)


def carried_values(loop: StridedLoop, sums: bool = True) -> Obstacle | None:
    """Returns the first value that one iteration hands to the next one, or None.

    Args:
        loop: The loop.
        sums: Whether sums, products and extremes over all iterations are fine.
    """
    local, totals = _declared_in(loop.body), dict[str, list[Node]]()
    for node in find(loop.body, "assignment_expression", "update_expression"):
        target = node.child_by_field_name("left") or node.child_by_field_name("argument")
        root = next(find(target, "identifier"), None) if target is not None else None
        if target is None or root is None or text_of(root) in local:
            continue
        names = {text_of(n) for n in find(target, "identifier")}
        if target.type != "identifier" and loop.index in names:
            continue
        if target.type == "identifier" and sums and _accumulates(node, text_of(target)):
            totals.setdefault(text_of(target), []).append(node)
            continue
        what = f"iterations depend on each other through {text_of(target)}"
        return Obstacle(what, line_of(node))
    return _used_early(loop, totals)


def _used_early(loop: StridedLoop, totals: Mapping[str, list[Node]]) -> Obstacle | None:
    """Returns the first running total that the loop uses before it is complete."""
    for name, nodes in totals.items():
        operators = {operator(node) for node in nodes}
        for leaf in find(loop.body, "identifier"):
            own = any(inside(leaf, node) for node in nodes)
            if text_of(leaf) == name and (not own or (len(nodes) > 1 and len(operators) > 1)):
                what = f"iterations depend on each other through {name}"
                return Obstacle(what, line_of(leaf))
    return None


def _accumulates(node: Node, name: str) -> bool:
    """Tells whether an assignment adds to, multiplies or takes the extreme of a variable."""
    right = node.child_by_field_name("right")
    if node.type == "update_expression" or right is None:
        return False
    uses = sum(text_of(n) == name for n in find(right, "identifier"))
    if operator(node) in ("+=", "-=", "*=", "|=", "&=", "^="):
        return uses == 0
    right = bare(right)
    if operator(node) != "=" or uses != 1:
        return False
    if right.type == "call_expression" and callee(right) in _COMMUTATIVE:
        given = [text_of(bare(argument)) for argument in arguments(right)]
        return name in (given[-1:] if "fma" in callee(right) else given)
    sides = operands(right)
    return operator(right) in ("+", "*") and sides is not None and name in map(text_of, sides)
