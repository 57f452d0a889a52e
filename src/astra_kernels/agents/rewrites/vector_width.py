"""Loops over single elements become loops over vectors of up to 16 bytes.

Two kinds of code qualify. A strided loop over elements gets a vector loop in front, taken where
all pointers are aligned; the original loop handles the rest. Code that is already written for
vectors through a constant gets another legal value of it (``vector_constant``).
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from astra_kernels.agents.rewrites.accesses import accesses, obstacle
from astra_kernels.agents.rewrites.edits import Editor
from astra_kernels.agents.rewrites.hazards import needs_same_threads
from astra_kernels.agents.rewrites.loops import NotStrided, strided
from astra_kernels.agents.rewrites.prelude import VECTOR, add_prelude
from astra_kernels.agents.rewrites.program import Applied, ParameterPoint, Program, Refused
from astra_kernels.agents.rewrites.reach import Reachable, broken, reach
from astra_kernels.agents.rewrites.scope import Scope
from astra_kernels.agents.rewrites.syntax import Node, find, line_of, text_of, words
from astra_kernels.agents.rewrites.vector_constant import change_constant, constant_points
from astra_kernels.agents.rewrites.vector_loop import Names, VectorLoop, streams

_WIDTHS = ((16, 1), (16, 2), (8, 1), (16, 4), (4, 1))
_WHOLE = words("float4 int4 uint4 double2 longlong2 ulonglong2")


@dataclass(frozen=True, eq=False)
class _Widening:
    """The loops that can be widened, and what was in the way of the first one that cannot."""

    loops: tuple[VectorLoop, ...]
    refusal: Refused


class VectorWidth:
    """Widens memory accesses; points give the bytes per access and the vectors in flight."""

    name = "vector_width"
    technique = "vectorized_access"
    sample = ParameterPoint.of(bytes=16, unroll=1)

    def parameters(self, program: Program) -> tuple[ParameterPoint, ...]:
        """Returns widths and unrollings for element loops, else legal values of the constant."""
        reachable = reach(program)
        if isinstance(reachable, Refused):
            return ()
        if _widening(reachable, 16, 1).loops:
            return tuple(ParameterPoint.of(bytes=b, unroll=u) for b, u in _WIDTHS)
        if _widening(reachable, 16, 2).loops:
            return tuple(ParameterPoint.of(bytes=b, unroll=u) for b, u in _WIDTHS if u > 1)
        return constant_points(program, reachable)

    def apply(self, program: Program, point: ParameterPoint) -> Applied | Refused:
        """Moves ``bytes`` (4, 8 or 16) per access, ``unroll`` at a time, or sets ``constant``."""
        reachable = reach(program)
        if isinstance(reachable, Refused):
            return reachable
        constant = point.number("constant", 0)
        if constant:
            return change_constant(program, reachable, constant)
        width, unroll = point.number("bytes", 16), point.number("unroll", 1)
        if width not in (4, 8, 16) or not 1 <= unroll <= 8:
            return Refused(f"no such width: {point}")
        widening = _widening(reachable, width, unroll)
        if not widening.loops:
            return widening.refusal
        editor = Editor()
        for plan in widening.loops:
            _insert(editor, plan)
        summary = f"accesses of {width} bytes, {unroll} in flight"
        return editor.finish(program, summary, reachable.units)


def _widening(reachable: Reachable, width: int, unroll: int) -> _Widening:
    found: list[VectorLoop] = []
    refusals: list[Refused] = []
    skipped: list[Refused] = []
    for kernel in reachable.kernels:
        line = broken(kernel)
        if line is not None:
            refusals.append(Refused(f"{kernel.name} does not parse cleanly", line))
            continue
        plans = _plans(Scope(kernel, reachable), (width, unroll), refusals, skipped)
        reason = needs_same_threads(kernel, {plan.loop: plan.mapping for plan in plans}, reachable)
        if reason is not None:
            refusals.insert(0, reason)
        else:
            found += plans
    if not reachable.kernels:
        refusals.append(Refused("the entry reaches no kernel"))
    generic = Refused("no loop that shares out single elements over threads")
    return _Widening(tuple(found), [*refusals, *skipped, generic][0])


def _plans(
    scope: Scope, shape: tuple[int, int], refusals: list[Refused], skipped: list[Refused]
) -> list[VectorLoop]:
    """Returns the loops to widen; says why others cannot be, or are of another kind."""
    kernel, reachable, plans = scope.function, scope.reachable, []
    taken = {text_of(n) for n in find(kernel.node, "identifier")}
    for node in find(kernel.body, "for_statement"):
        loop = strided(node, scope)
        if isinstance(loop, NotStrided):
            skipped.append(Refused(loop.reason, loop.line))
            continue
        if loop.scale:
            skipped.append(
                Refused(f"the loop already steps by {loop.scale} elements", line_of(node))
            )
            continue
        blocked = obstacle(loop, scope)
        if blocked is not None:
            refusals.append(Refused(blocked.reason, blocked.line))
            continue
        chosen = streams(accesses(loop, scope, reachable.cached_loads), loop, taken)
        if not chosen:
            refusals.append(Refused("the loop moves no neighbouring elements", line_of(node)))
            continue
        whole = any(s.accesses[0].base.type in _WHOLE | reachable.classes for s in chosen)
        if whole and shape[1] == 1:
            refusals.append(Refused("the loop already moves whole vectors", line_of(node)))
            continue
        names = Names.fresh(loop.index, taken)
        plans.append(VectorLoop(kernel, loop, chosen, names, *shape, whole))
    return plans


def _insert(editor: Editor, plan: VectorLoop) -> None:
    """Puts the vector loop in front of its loop; in braces where only one statement may stand."""
    unit, node = plan.function.unit, plan.loop.node
    first = _first(node)
    line_start = unit.text.rfind(b"\n", 0, first.start_byte) + 1
    lead = unit.text[line_start : first.start_byte].decode()
    indent = lead if not lead.strip() else re.match(r"\s*", lead)[0]  # type: ignore[index]
    alone = node.parent is None or node.parent.type != "compound_statement"
    lines = plan.text().split("\n")
    text = "\n".join(ln if ln.startswith("#") or not ln else f"{indent}{ln}" for ln in lines)
    opening = f"{{\n{text}{indent}" if alone else f"{text.lstrip()}{indent}"
    editor.note(unit, node, f"vector loop over {plan.loop.index}")
    editor.before(unit, first, opening)
    editor.before(unit, plan.loop.start, f"{plan.names.done} + ")
    if alone:
        editor.after(unit, node, f"\n{indent}}}")
    add_prelude(editor, unit, [VECTOR])


def _first(node: Node) -> Node:
    """Returns the pragma in front of a loop, or the loop."""
    before = node.prev_sibling
    if before is not None and before.type == "preproc_call" and "unroll" in text_of(before):
        return before
    return node
