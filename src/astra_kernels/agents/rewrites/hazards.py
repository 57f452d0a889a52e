"""Data that one loop leaves in memory for the next one of the same kernel."""

from __future__ import annotations

from collections.abc import Mapping

from astra_kernels.agents.rewrites.loops import StridedLoop
from astra_kernels.agents.rewrites.program import Refused
from astra_kernels.agents.rewrites.reach import Function, Reachable
from astra_kernels.agents.rewrites.scope import Scope
from astra_kernels.agents.rewrites.syntax import (
    Node,
    assignment_of,
    callee,
    find,
    inside,
    line_of,
    text_of,
)

_DEPTH = 8


def needs_same_threads(
    kernel: Function, mappings: Mapping[StridedLoop, str], reachable: Reachable
) -> Refused | None:
    """Refuses where a thread may rely on what it alone read or wrote: no barrier stands in between.

    Args:
        kernel: The kernel.
        mappings: The loops that change, and what decides which thread has which element in each.
            Among loops with the same mapping every thread keeps its own elements.
        reachable: What the names of the kernel may mean.
    """
    scope = Scope(kernel, reachable)
    barriers = _barriers(kernel, reachable)
    everywhere = _elements(kernel.body)
    for loop, mapping in mappings.items():
        alike = [loop.node]
        if _is_steady(loop, scope):
            alike += [other.node for other, same in mappings.items() if same == mapping]
        own = [n for n in everywhere if inside(n, loop.node)]
        used = {_root(n, scope) for n in own} - {""}
        written = {_root(n, scope) for n in own if assignment_of(n) is not None}
        for node in everywhere:
            root = _root(node, scope)
            shares = root in written or (root in used and assignment_of(node) is not None)
            if not shares or any(inside(node, other) for other in alike):
                continue
            low, high = sorted((loop.node.start_byte, node.start_byte))
            between = any(low < barrier < high for barrier in barriers)
            if loop.team == "grid" or not between:
                what = f"{root} passes between loops without a barrier"
                return Refused(what, line_of(node))
    return None


def _is_steady(loop: StridedLoop, scope: Scope) -> bool:
    """Tells whether the names in a loop's header mean the same all over the kernel."""
    header = (loop.start, loop.bound, loop.step)
    names = {text_of(leaf) for node in header for leaf in find(node, "identifier")}
    return not any(scope.assigned.get(name) for name in names)


def _elements(body: Node) -> list[Node]:
    return list(find(body, "subscript_expression", "pointer_expression"))


def _barriers(kernel: Function, reachable: Reachable) -> list[int]:
    """Returns where the kernel calls ``__syncthreads`` itself or by way of a function."""
    names = {f.name for f in reachable.device if "__syncthreads" in text_of(f.node)} - {kernel.name}
    found = []
    for call in find(kernel.body, "call_expression"):
        text = text_of(call.child_by_field_name("function"))
        if callee(call) in names or "__syncthreads" in text or "BlockReduce" in text:
            found.append(call.start_byte)
    return found


def _root(node: Node, scope: Scope) -> str:
    """Returns the pointer parameter that an element belongs to, or an empty string."""
    name = next((text_of(n) for n in find(node, "identifier")), "")
    for _ in range(_DEPTH):
        found = scope.get(name)
        if found is None or not (found.pointers or found.array):
            return ""
        if found.value is None:
            return name
        inner = (text_of(n) for n in find(found.value, "identifier"))
        pointers = [n for n in inner if (d := scope.get(n)) and (d.pointers or d.array)]
        if not pointers:
            return name
        name = pointers[0]
    return name
