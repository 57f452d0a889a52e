"""Recognises the classic reduction in shared memory, whose stride halves until one value is left.

::

    for (int s = blockDim.x / 2; s > 0; s >>= 1) {
      if (threadIdx.x < s) sh[threadIdx.x] += sh[threadIdx.x + s];
      __syncthreads();
    }
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from astra_kernels.agents.rewrites.block_seed import seed_of
from astra_kernels.agents.rewrites.launches import OpaqueLaunch, launches
from astra_kernels.agents.rewrites.loops import canonical, is_uniform
from astra_kernels.agents.rewrites.program import Refused
from astra_kernels.agents.rewrites.reach import Function, Reachable
from astra_kernels.agents.rewrites.scope import Scope
from astra_kernels.agents.rewrites.syntax import (
    Node,
    ancestors,
    arguments,
    assignment_of,
    bare,
    callee,
    find,
    inside,
    is_unevaluated,
    line_of,
    operands,
    operator,
    text_of,
    words,
)

_COMBINES = words("max min fmax fmin fmaxf fminf")
_HALVES = {(">>=", "1"), ("/=", "2")}
_TYPES = words("float double int unsigned uint32_t int32_t") | {"unsigned int", "long long"}
_EXTERN = re.compile(r"\bextern\b[^;]*\b__shared__|\b__shared__\b[^;]*\bextern\b")
_LOOPS = ("for_statement", "while_statement", "do_statement")


@dataclass(frozen=True, eq=False)
class Combination:
    """``array[tid] = f(array[tid], array[tid + s])``, and which nodes are the two elements."""

    statement: Node
    array: str
    element: str
    own: tuple[Node, ...]
    other: Node


@dataclass(frozen=True, eq=False)
class TreeReduction:
    """One loop that reduces arrays of shared memory over a block of ``threads`` threads."""

    node: Node
    stride: str
    combinations: tuple[Combination, ...]


def tree_reductions(
    scope: Scope, reachable: Reachable
) -> tuple[list[TreeReduction], list[Refused], int]:
    """Returns a kernel's reductions, why loops that look alike are none, and the block's size."""
    kernel = scope.function
    loops = [n for n in find(kernel.body, "for_statement") if "__syncthreads" in text_of(n)]
    candidates = [node for node in loops if _stride(node)]
    if not candidates:
        return [], [], 0
    size = block_size(kernel, reachable)
    if isinstance(size, Refused):
        return [], [size], 0
    found: list[TreeReduction] = []
    refusals: list[Refused] = []
    for node in candidates:
        one = _reduction(node, scope, size)
        if isinstance(one, Refused):
            refusals.append(one)
        else:
            found.append(one)
    kept = []
    for one in found:
        refusal = _uses(one, found, scope) or _partial_block(one, scope)
        if refusal is None:
            kept.append(one)
        else:
            refusals.append(refusal)
    return kept, refusals, size


def block_size(kernel: Function, reachable: Reachable) -> int | Refused:
    """Returns the number of threads of a kernel's blocks, which must be one power of two."""
    sizes: set[int] = set()
    for launch in launches(reachable):
        if isinstance(launch, OpaqueLaunch):
            return Refused(launch.reason, launch.line)
        if launch.kernel != kernel.name:
            continue
        seed = seed_of(launch, reachable)
        if isinstance(seed, Refused):
            return seed
        if seed.capped or seed.rows:
            what = f"the block size {text_of(launch.block)} is no constant"
            return Refused(what, line_of(launch.block))
        sizes.add(seed.size)
    if len(sizes) != 1:
        what = "is launched in several sizes" if sizes else "has no launch in reach"
        return Refused(f"{kernel.name} {what}", kernel.line)
    size = sizes.pop()
    if size & (size - 1) or size < 64:
        return Refused(f"a block of {size} threads does not halve into warps", kernel.line)
    return size


def _stride(node: Node) -> str:
    """Returns the variable of a loop that halves it down to one, or an empty string."""
    update, condition = node.child_by_field_name("update"), node.child_by_field_name("condition")
    sides = operands(update) if update is not None else None
    if update is None or condition is None or sides is None:
        return ""
    name, by = text_of(sides[0]), text_of(bare(sides[1]))
    inner = operands(bare(sides[1]))
    if operator(update) == "=" and inner is not None and text_of(bare(inner[0])) == name:
        halves = (f"{operator(bare(sides[1]))}=", text_of(bare(inner[1]))) in _HALVES
    else:
        halves = (operator(update), by) in _HALVES
    test = re.sub(r"\s+", "", text_of(bare(condition)))
    return name if halves and test in (f"{name}>0", f"{name}>=1", f"{name}!=0", name) else ""


def _reduction(node: Node, scope: Scope, size: int) -> TreeReduction | Refused:
    stride, line = _stride(node), line_of(node)
    initial = node.child_by_field_name("initializer")
    declarator = initial.child_by_field_name("declarator") if initial is not None else None
    start = declarator.child_by_field_name("value") if declarator is not None else None
    if start is None or not _is_half(canonical(start, scope), size):
        return Refused(f"the stride does not start at half of {size} threads", line)
    body = node.child_by_field_name("body")
    statements = _statements(body) if body is not None else []
    branch = statements[0] if len(statements) == 2 else None
    if branch is None or branch.type != "if_statement" or not is_barrier(statements[1]):
        return Refused("the loop is not one step and a barrier", line)
    condition = branch.child_by_field_name("condition")
    value = condition.child_by_field_name("value") if condition is not None else None
    sides = operands(value) if value is not None else None
    own = sides is not None and canonical(sides[0], scope) == "threadIdx.x"
    if value is None or operator(value) != "<" or not own or text_of(sides[1]) != stride:  # type: ignore[index]
        return Refused("the threads below the stride are not those that add", line_of(branch))
    consequence = branch.child_by_field_name("consequence")
    if branch.child_by_field_name("alternative") is not None or consequence is None:
        return Refused("the step has an alternative", line_of(branch))
    found: list[Combination] = []
    for statement in _statements(consequence):
        one = _combination(statement, scope, stride)
        if isinstance(one, Refused):
            return one
        found.append(one)
    arrays = [one.array for one in found]
    if not found or len(set(arrays)) < len(arrays):
        return Refused("the step combines an array twice", line)
    return TreeReduction(node, stride, tuple(found))


def _is_half(start: str, size: int) -> bool:
    if start in ("blockDim.x/2", "blockDim.x>>1", str(size // 2)):
        return True
    return start in (f"{size}/2", f"{size}>>1")


def _statements(node: Node) -> list[Node]:
    """Returns the statements of a block, or the single statement."""
    if node.type != "compound_statement":
        return [node]
    return [c for c in node.named_children if c.type != "comment"]


def is_barrier(node: Node) -> bool:
    """Tells whether a statement is ``__syncthreads();``."""
    call = node.named_children[0] if node.named_children else node
    return node.type == "expression_statement" and callee(call) == "__syncthreads"


def _combination(statement: Node, scope: Scope, stride: str) -> Combination | Refused:
    line = line_of(statement)
    change = statement.named_children[0] if statement.named_children else statement
    sides = operands(change) if change.type == "assignment_expression" else None
    other_form = Refused("the step is no sum, maximum or minimum of two elements", line)
    if sides is None:
        return other_form
    left, right = sides[0], bare(sides[1])
    array = text_of(left.child_by_field_name("argument"))
    declared = scope.get(array)
    if declared is None or "__shared__" not in declared.qualifiers or not declared.array:
        return Refused(
            f"{array or text_of(left)} is no array in shared memory of this kernel", line
        )
    if declared.type not in _TYPES or "volatile" in declared.qualifiers:
        return Refused(f"{array} holds {declared.type}, which no shuffle moves here", line)
    if _index(left, array, scope) != "threadIdx.x":
        return other_form
    if operator(change) == "+=":
        parts = [right]
    elif operator(change) == "=" and operator(right) == "+":
        parts = list(operands(right) or ())
    elif operator(change) == "=" and right.type == "call_expression" and callee(right) in _COMBINES:
        parts = arguments(right)
    else:
        return other_form
    indices = {_index(bare(part), array, scope): bare(part) for part in parts}
    wanted = "+".join(sorted((stride, "threadIdx.x")))
    others = indices.pop(wanted, None)
    own = indices.pop("threadIdx.x", None)
    if others is None or indices or (operator(change) == "=") != (own is not None):
        return other_form
    targets = (left,) if own is None else (left, own)
    return Combination(change, array, declared.type, targets, others)


def _index(node: Node, array: str, scope: Scope) -> str:
    """Returns the canonical index of an element of an array, or an empty string."""
    indices = node.child_by_field_name("indices")
    if node.type != "subscript_expression" or indices is None:
        return ""
    if text_of(node.child_by_field_name("argument")) != array or len(indices.named_children) != 1:
        return ""
    return canonical(indices.named_children[0], scope)


def _uses(one: TreeReduction, found: list[TreeReduction], scope: Scope) -> Refused | None:
    """Refuses where anything but the result is read afterwards: other elements differ."""
    outer = next((o for o in ancestors(one.node) if o.type in _LOOPS), None)
    for array in (combination.array for combination in one.combinations):
        alias = _alias(array, scope)
        if alias is not None:
            return Refused(f"{array} has another name as well", alias)
        loops = [r.node for r in found if any(c.array == array for c in r.combinations)]
        fresh = [node for node in loops if _refilled(node, array, scope, loops)]
        if outer is not None and one.node not in fresh:
            what = f"{array} is not filled again by every thread before this reduction"
            return Refused(what, line_of(one.node))
        for leaf in _mentions(array, scope):
            before = leaf.start_byte < one.node.start_byte
            repeated = outer is not None and inside(leaf, outer)
            if (before and not repeated) or any(inside(leaf, n) for n in (one.node, *fresh)):
                continue
            if not _is_harmless(leaf, array, scope):
                what = f"{array} is read after the reduction elsewhere than at 0"
                return Refused(what, line_of(leaf))
    return None


def _mentions(array: str, scope: Scope) -> Iterator[Node]:
    return (n for n in find(scope.function.body, "identifier") if text_of(n) == array)


def _alias(array: str, scope: Scope) -> int | None:
    """Returns the line where an array is mentioned other than by element, or None."""
    declared = scope.get(array)
    for leaf in _mentions(array, scope):
        if declared is not None and leaf == declared.node:
            continue
        element = leaf.parent
        whole = element is None or element.type != "subscript_expression"
        parent = None if element is None else element.parent
        taken = parent is not None and parent.type == "pointer_expression"
        if (whole or taken) and not is_unevaluated(leaf):
            return line_of(leaf)
    if declared is None or "extern" not in declared.qualifiers:
        return None
    for function in scope.reachable.device:
        same = _EXTERN.findall(text_of(function.node))
        if len(same) > 1 or (same and not function.is_kernel):
            return function.line
    return None


def _is_harmless(leaf: Node, array: str, scope: Scope) -> bool:
    """Tells whether a mention declares the array, is its first element, or fills an element."""
    element = leaf.parent
    if element is None or element.type != "subscript_expression":
        return True  # a declaration, or what only needs its size
    return _index(element, array, scope) == "0" or _fills(element)


def _fills(element: Node) -> bool:
    change = assignment_of(element)
    return change is not None and operator(change) == "=" and operands(change)[0] == element  # type: ignore[index]


def _refilled(node: Node, array: str, scope: Scope, loops: list[Node]) -> bool:
    """Tells whether each thread writes its element in front of a loop, behind the one before it."""
    earlier = max((n.end_byte for n in loops if n.end_byte <= node.start_byte), default=0)
    sibling = node.prev_named_sibling
    while sibling is not None and sibling.start_byte >= earlier:
        change = sibling.named_children[0] if sibling.named_children else sibling
        sides = operands(change) if change.type == "assignment_expression" else None
        own = sides is not None and _index(sides[0], array, scope) == "threadIdx.x"
        if sibling.type == "expression_statement" and own and operator(change) == "=":
            return True
        sibling = sibling.prev_named_sibling
    return False


def _partial_block(one: TreeReduction, scope: Scope) -> Refused | None:
    """Refuses where some threads of a block may have left: a shuffle needs whole warps."""
    for leave in find(scope.function.body, "return_statement"):
        if leave.start_byte > one.node.start_byte:
            continue
        for branch in ancestors(leave):
            if branch.type in _LOOPS:
                return Refused("threads may leave a loop before the reduction", line_of(leave))
            condition = branch.child_by_field_name("condition")
            if branch.type != "if_statement" or condition is None:
                continue
            if not is_uniform(condition, scope, "block"):
                what = "some threads of a block may leave before the reduction"
                return Refused(what, line_of(leave))
    return None
