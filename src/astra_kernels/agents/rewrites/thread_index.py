"""Uses of the thread index whose meaning does not depend on how many threads a block has."""

from __future__ import annotations

from dataclasses import dataclass

from astra_kernels.agents.rewrites.block_seed import Seed
from astra_kernels.agents.rewrites.bounds import literal_value
from astra_kernels.agents.rewrites.loops import StridedLoop, canonical, strided
from astra_kernels.agents.rewrites.program import Refused
from astra_kernels.agents.rewrites.reach import Function
from astra_kernels.agents.rewrites.scope import Scope, literal_kind
from astra_kernels.agents.rewrites.syntax import (
    Node,
    ancestors,
    bare,
    find,
    line_of,
    operands,
    operator,
    text_of,
)

_WARP = {("%", "32"), ("&", "31"), ("/", "32"), (">>", "5")}
_COMPARISONS = ("<", "<=", ">", ">=", "==", "!=")


def size_dependence(scope: Scope, seed: Seed, size: int) -> Refused | None:
    """Returns the first reason why a function may need the block size it was written for."""
    function = scope.function
    if seed.rows:
        return _warps_are_counted(function, scope)
    names = aliases(scope)
    loops = [strided(n, scope, offset=True) for n in find(function.body, "for_statement")]
    starts = {loop.start.id for loop in loops if isinstance(loop, StridedLoop)}
    for node in find(function.body, "identifier", "field_expression"):
        if text_of(node) not in names:
            continue
        if not _is_free(node, scope, starts):
            what = "what this thread index selects may depend on the block size"
            return Refused(what, line_of(node))
    for node in find(function.body, "binary_expression"):
        text = canonical(node, scope)
        by_warp = "threadIdx.x/32" in text or "threadIdx.x>>5" in text
        if operator(node) == "+" and "blockIdx" in text and by_warp:
            return Refused("each warp of the grid has its own part", line_of(node))
    return _repeated(function, scope, seed) or _array_limits(function, seed, size)


@dataclass(frozen=True)
class GlobalIndex:
    """Where a kernel gives each thread of the grid its own element, and whether it has an end."""

    line: int
    guarded: bool


def global_index(scope: Scope) -> GlobalIndex | None:
    """Finds the first ``blockIdx.x * blockDim.x + threadIdx.x`` outside a grid-stride loop."""
    kernel = scope.function
    loops = [strided(n, scope) for n in find(kernel.body, "for_statement")]
    starts = {loop.start.id for loop in loops if isinstance(loop, StridedLoop)}
    for node in find(kernel.body, "binary_expression"):
        if any(outer.id in starts for outer in (node, *ancestors(node))) or _in_grid_loop(node):
            continue
        if canonical(node, scope) != "blockDim.x*blockIdx.x+threadIdx.x":
            continue
        declared = next((o for o in ancestors(node) if o.type == "init_declarator"), None)
        name = text_of(declared.child_by_field_name("declarator")) if declared is not None else ""
        if any(
            loop.start.id
            for loop in loops
            if isinstance(loop, StridedLoop) and text_of(loop.start) == name
        ):
            continue
        return GlobalIndex(line_of(node), _is_guarded(kernel, name))
    return None


def _in_grid_loop(node: Node) -> bool:
    """Tells whether a value starts a loop that steps by the size of the grid."""
    loop = next((outer for outer in ancestors(node) if outer.type == "for_statement"), None)
    initial = None if loop is None else loop.child_by_field_name("initializer")
    update = None if loop is None else loop.child_by_field_name("update")
    return initial is not None and _within(node, initial) and "gridDim" in text_of(update)


def _is_guarded(kernel: Function, name: str) -> bool:
    for branch in find(kernel.body, "if_statement"):
        condition = branch.child_by_field_name("condition")
        names = {text_of(n) for n in find(condition, "identifier")} if condition is not None else ()
        if name and name in names and any(s in text_of(condition) for s in ("<", ">")):
            return True
    return False


def _warps_are_counted(function: Function, scope: Scope) -> Refused | None:
    """For blocks of 32 by n threads: the loops must be counted by ``blockDim.y``."""
    if not function.is_kernel:
        return None
    text = text_of(function.body)
    loops = list(find(function.body, "for_statement"))
    counted = any("blockDim" in _origin(loop, scope) for loop in loops)
    if "blockDim.y" in text and counted:
        return None
    return Refused(f"{function.name} has no loop counted by its warps", function.line)


def _origin(loop: Node, scope: Scope) -> str:
    """Returns a loop's condition with its variables replaced by what they were set to."""
    condition = loop.child_by_field_name("condition")
    sides = operands(condition) if condition is not None else None
    text, names = text_of(sides[1]) if sides is not None else "", set[str]()
    pending = [sides[1]] if sides is not None else []
    while pending:
        for leaf in find(pending.pop(), "identifier"):
            found = scope.constant(text_of(leaf))
            if found is not None and found.value is not None and found.name not in names:
                names.add(found.name)
                text += f" {text_of(found.value)}"
                pending.append(found.value)
    return text


def aliases(scope: Scope) -> set[str]:
    """Returns the expressions and variables that are the thread's index in its block."""
    names = {"threadIdx.x"}
    for name in scope.declared:
        found = scope.constant(name)
        value = None if found is None or found.pointers else found.value
        if value is not None and canonical(value, scope) == "threadIdx.x":
            names.add(name)
    return names


def _is_free(node: Node, scope: Scope, starts: set[int]) -> bool:
    outers = [node, *ancestors(node)]
    if any(outer.id in starts for outer in outers):
        return True
    parent = _above(node)
    if parent is None or parent.type in ("init_declarator", "lambda_capture_specifier"):
        return _is_alias_declaration(node, scope)
    if parent.type == "unary_expression":
        return operator(parent) == "!"
    if parent.type == "subscript_argument_list":
        return _is_shared(parent.parent, scope)
    sides = operands(parent)
    if parent.type != "binary_expression" or sides is None:
        return False
    other = sides[1] if _within(node, sides[0]) else sides[0]
    sign = operator(parent)
    if (sign, canonical(other, scope)) in _WARP and _within(node, sides[0]):
        return True
    if sign in _COMPARISONS:
        number = literal_value(bare(other))
        return number is None or number <= 32
    if sign == "+" and canonical(other, scope) == "blockDim.x*blockIdx.x":
        return True
    outer = _above(parent)
    in_array = outer is not None and outer.type == "subscript_argument_list"
    return sign in "+-^" and in_array and outer is not None and _is_shared(outer.parent, scope)


def _within(node: Node, outer: Node) -> bool:
    return outer.start_byte <= node.start_byte and node.end_byte <= outer.end_byte


def _above(node: Node) -> Node | None:
    """Returns the nearest ancestor that is neither a cast nor parentheses."""
    parent = node.parent
    while parent is not None and parent.type in ("parenthesized_expression", "cast_expression"):
        parent = parent.parent
    return parent


def _is_alias_declaration(node: Node, scope: Scope) -> bool:
    declarator = next((o for o in ancestors(node) if o.type == "init_declarator"), None)
    name = declarator.child_by_field_name("declarator") if declarator is not None else None
    return name is not None and (name == node or scope.constant(text_of(name)) is not None)


def _is_shared(node: Node | None, scope: Scope) -> bool:
    base = node.child_by_field_name("argument") if node is not None else None
    found = scope.get(text_of(base)) if base is not None else None
    return found is not None and "__shared__" in found.qualifiers


def _repeated(function: Function, scope: Scope, seed: Seed) -> Refused | None:
    """Refuses numbers in the code that may be the block size, or its number of warps."""
    warps = seed.size // 32
    for node in find(function.body, "number_literal"):
        value = literal_value(node) if literal_kind(text_of(node)) == "int" else None
        parent, outer = node.parent, [o.type for o in ancestors(node)]
        if "array_declarator" in outer or "template_argument_list" in outer[:1]:
            continue
        mask = value == seed.size - 1 and parent is not None and parent.type == "binary_expression"
        if value is not None and value > 32 and (mask or value in (seed.size, seed.size // 2)):
            return Refused(f"{text_of(node)} may stand for the block size", line_of(node))
        if value != warps or warps in (1, 32) or parent is None:
            continue
        sides = operands(parent)
        names = " ".join(canonical(side, scope) for side in sides or ())
        if operator(parent) in _COMPARISONS and "threadIdx" in names:
            return Refused(f"{text_of(node)} may stand for the number of warps", line_of(node))
    return None


def _array_limits(function: Function, seed: Seed, size: int) -> Refused | None:
    """Refuses to outgrow an array in shared memory that is not sized by the block."""
    for declaration in find(function.body, "declaration"):
        if "__shared__" not in text_of(declaration) or "extern" in text_of(declaration):
            continue
        for array in find(declaration, "array_declarator"):
            extent = array.child_by_field_name("size")
            value = None if extent is None else literal_value(extent)
            if value is None or value in (1, seed.size, seed.size // 32) or value >= size:
                continue
            if value not in (32, 33) and size > seed.size:
                return Refused("an array in shared memory limits the block", line_of(array))
    return None
