"""Several blocks share one row: the win for few rows on many multiprocessors.

The blocks of a row lie along ``blockIdx.y``. A strided loop then starts ``blockIdx.y * blockDim.x``
later and steps ``gridDim.y`` times as far, so that a launch with one block a row does what it did.
"""

from __future__ import annotations

import re

from astra_kernels.agents.rewrites.accesses import carried_values
from astra_kernels.agents.rewrites.edits import Editor
from astra_kernels.agents.rewrites.launches import Launch, OpaqueLaunch, components, launches
from astra_kernels.agents.rewrites.loops import StridedLoop, canonical, strided
from astra_kernels.agents.rewrites.program import Applied, Program, Refused
from astra_kernels.agents.rewrites.reach import Function, Reachable, broken
from astra_kernels.agents.rewrites.scope import Scope
from astra_kernels.agents.rewrites.syntax import (
    Node,
    ancestors,
    bare,
    callee,
    find,
    inside,
    line_of,
    operands,
    text_of,
)
from astra_kernels.agents.rewrites.thread_index import aliases

_TOGETHER = re.compile(r"__shared__|__sync|shfl|atomic|__ballot|__any|__all|barrier|\bcub\b|\bcg\b")
_OTHER_AXES = re.compile(
    r"\b(?:blockIdx|gridDim)\s*\.\s*[yz]\b|\bblockDim\s*\.\s*[yz]\b|threadIdx\s*\.\s*[yz]"
)
_HARMLESS_ASM = ("griddepcontrol.wait", "griddepcontrol.launch_dependents")


def split_rows(program: Program, reachable: Reachable, factor: int) -> Applied | Refused:
    """Returns the program with ``factor`` blocks a row in every kernel that allows it."""
    editor = Editor()
    first: Refused | None = None
    for kernel in reachable.kernels:
        refusal = _split(editor, kernel, reachable, factor)
        first = first or refusal
    if not editor.edits:
        return first or Refused("the entry reaches no kernel")
    return editor.finish(program, f"{factor} blocks a row", reachable.units)


def _split(editor: Editor, kernel: Function, reachable: Reachable, factor: int) -> Refused | None:
    scope = Scope(kernel, reachable)
    loops = splittable(kernel, scope, reachable)
    if isinstance(loops, Refused):
        return loops
    edits: list[tuple[Launch, str]] = []
    for launch in launches(reachable):
        if isinstance(launch, OpaqueLaunch):
            return Refused(launch.reason, launch.line)
        if launch.kernel != kernel.name:
            continue
        grid = _wider_grid(launch, factor)
        if isinstance(grid, Refused):
            return grid
        edits.append((launch, grid))
    if not edits:
        return Refused(f"no launch of {kernel.name} is in reach", kernel.line)
    for launch, grid in edits:
        editor.note(launch.host.unit, launch.grid, f"{factor} blocks a row")
        editor.replace(launch.host.unit, launch.grid, grid)
    _split_loops(editor, kernel, scope, loops)
    return None


def _split_loops(editor: Editor, kernel: Function, scope: Scope, loops: list[StridedLoop]) -> None:
    for loop in loops:
        editor.note(kernel.unit, loop.node, f"the blocks of a row share the loop over {loop.index}")
        simple = bare(loop.step).type in ("identifier", "field_expression", "number_literal")
        step = text_of(loop.step) if simple else f"({text_of(loop.step)})"
        editor.after(kernel.unit, loop.start, f" + blockIdx.y * {step}")
        editor.replace(kernel.unit, loop.step, f"{step} * gridDim.y")
    for branch in find(kernel.body, "if_statement"):
        condition = _first_thread(branch, scope)
        if condition is not None:
            editor.after(kernel.unit, condition, " && blockIdx.y == 0")


def _wider_grid(launch: Launch, factor: int) -> str | Refused:
    line = line_of(launch.grid)
    parts = components(launch.grid, launch.scope)
    if parts is None or not parts:
        return Refused("the grid is set piece by piece", line)
    if any(text_of(part) != "1" for part in parts[1:]):
        return Refused("the grid already has a second axis", line)
    text = text_of(launch.grid)
    if _is_dim3(launch.grid, launch.scope):
        text = f"{text}.x" if bare(launch.grid).type == "identifier" else text_of(parts[0])
    return f"dim3({text}, {factor})"


def _is_dim3(node: Node, scope: Scope) -> bool:
    node = bare(node)
    found = scope.get(text_of(node)) if node.type == "identifier" else None
    return (found is not None and found.type == "dim3") or text_of(node).startswith("dim3")


def splittable(kernel: Function, scope: Scope, reachable: Reachable) -> list[StridedLoop] | Refused:
    """Returns the loops that the blocks of a row can share, or why they cannot."""
    line = broken(kernel)
    if line is not None:
        return Refused(f"{kernel.name} does not parse cleanly", line)
    refusal = _works_together(kernel, reachable)
    if refusal is not None:
        return refusal
    found = []
    for node in find(kernel.body, "for_statement"):
        loop = strided(node, scope, offset=True)
        if isinstance(loop, StridedLoop) and loop.team == "block":
            found.append(loop)
    if not found:
        return Refused(f"{kernel.name} has no loop that the threads of a block share", kernel.line)
    for loop in found:
        carried = carried_values(loop, sums=False)
        if carried is not None:
            return Refused(carried.reason, carried.line)
    return _only_in_loops(kernel, scope, found) or _helpers(scope, found) or found


def _works_together(kernel: Function, reachable: Reachable) -> Refused | None:
    """Refuses kernels whose threads exchange values, or whose launch uses other axes."""
    mentioned = {text_of(n) for n in find(kernel.node, "identifier", "field_identifier")}
    for function in (kernel, *(f for f in reachable.device if f.name in mentioned)):
        for node in find(function.node, "gnu_asm_expression"):
            harmless = any(harmless in text_of(node) for harmless in _HARMLESS_ASM)
            if function is kernel and not harmless:
                return Refused(f"{kernel.name} contains assembly", line_of(node))
        match = _TOGETHER.search(text_of(function.node))
        if match is not None:
            what = f"{function.name} uses {match.group()}: the threads of a row work together"
            return Refused(what, function.line)
    match = _OTHER_AXES.search(text_of(kernel.node))
    if match is not None:
        return Refused(f"{kernel.name} already uses {match.group()}", kernel.line)
    if not any(text_of(n) == "blockIdx.x" for n in find(kernel.body, "field_expression")):
        return Refused(f"{kernel.name} does not give its blocks rows", kernel.line)
    return None


def _helpers(scope: Scope, loops: list[StridedLoop]) -> Refused | None:
    """Refuses helpers that share out work themselves, or may write outside the shared loops."""
    kernel, reachable = scope.function, scope.reachable
    helpers = {f.name: f for f in reachable.device if not f.is_kernel}
    for call in find(kernel.body, "call_expression"):
        helper = helpers.get(callee(call))
        if helper is None:
            continue
        if "threadIdx" in text_of(helper.node):
            return Refused(f"{helper.name} looks at the thread index", line_of(call))
        within = any(inside(call, loop.node) for loop in loops) or _guards(call, scope)
        targets = find(helper.body, "assignment_expression", "update_expression")
        if not within and any(_is_memory(node) for node in targets):
            return Refused(f"{helper.name} may write outside the loops", line_of(call))
    return None


def _is_memory(node: Node) -> bool:
    target = node.child_by_field_name("left") or node.child_by_field_name("argument")
    return target is not None and target.type in ("subscript_expression", "pointer_expression")


def _only_in_loops(kernel: Function, scope: Scope, loops: list[StridedLoop]) -> Refused | None:
    """Refuses a thread index, or a write to memory, outside the shared loops."""
    starts = {loop.start.id: loop for loop in loops}
    names = aliases(scope)
    for node in find(kernel.body, "identifier", "field_expression"):
        if text_of(node) not in names or _declares(node, scope):
            continue
        if not any(o.id in starts for o in (node, *ancestors(node))) and not _guards(node, scope):
            return Refused("the thread index is used outside the loops", line_of(node))
    for node in find(kernel.body, "assignment_expression", "update_expression"):
        target = node.child_by_field_name("left") or node.child_by_field_name("argument")
        if target is None or target.type not in ("subscript_expression", "pointer_expression"):
            continue
        root = next((text_of(n) for n in find(target, "identifier")), "")
        within = any(outer.id in {lp.node.id for lp in loops} for outer in ancestors(node))
        guarded = any(_first_thread(outer, scope) is not None for outer in ancestors(node))
        local = (one := scope.get(root)) is not None and one.array
        if not (within or guarded or local):
            return Refused("memory is written outside the loops", line_of(node))
    return None


def _declares(node: Node, scope: Scope) -> bool:
    parent = node.parent
    if parent is not None and parent.type == "init_declarator":
        return True
    return parent is not None and parent.type == "cast_expression" and _declares(parent, scope)


def _guards(node: Node, scope: Scope) -> bool:
    return any(_first_thread(outer, scope) is not None for outer in ancestors(node))


def _first_thread(node: Node, scope: Scope) -> Node | None:
    """Returns the comparison of ``if (threadIdx.x == 0)``."""
    condition = node.child_by_field_name("condition") if node.type == "if_statement" else None
    value = condition.child_by_field_name("value") if condition is not None else None
    sides = operands(value) if value is not None else None
    if value is None or sides is None or "==" not in text_of(value):
        return None
    return value if sorted(canonical(s, scope) for s in sides) == ["0", "threadIdx.x"] else None
