"""Loops that load are unrolled in part, so that several of their loads are under way at a time.

``#pragma unroll N`` changes no value: the compiler repeats the body and keeps a loop for the rest.
It only pays where the loads of the next iterations can start before this one is done. So a loop
qualifies if one of its loads may overtake all its stores (it has none, or ``__restrict__`` keeps
them apart) and it holds no barrier. Loops of a constant length are the compiler's already.
"""

from __future__ import annotations

import re

from astra_kernels.agents.rewrites.bounds import literal_value, value_of
from astra_kernels.agents.rewrites.edits import Editor
from astra_kernels.agents.rewrites.global_memory import GlobalMemory, global_memory
from astra_kernels.agents.rewrites.program import Applied, ParameterPoint, Program, Refused
from astra_kernels.agents.rewrites.reach import Reachable, broken, reach
from astra_kernels.agents.rewrites.scope import Scope
from astra_kernels.agents.rewrites.syntax import (
    Node,
    assignment_of,
    bare,
    find,
    inside,
    line_of,
    operands,
    operator,
    text_of,
)

_FACTORS = (4, 2, 8)
_FENCES = re.compile(r"__sync|__threadfence|shfl|barrier|cp_async|atomic|__ballot|__any|__all")
_PRAGMA = re.compile(r"#\s*pragma\s+unroll\b\s*\(?\s*(\w*)")


class Unroll:
    """Unrolls loops that load from global memory; points say how often."""

    name = "unroll"
    technique = "unroll"
    sample = ParameterPoint.of(factor=4)

    def parameters(self, program: Program) -> tuple[ParameterPoint, ...]:
        """Returns the factors, if any loop qualifies."""
        points = tuple(ParameterPoint.of(factor=factor) for factor in _FACTORS)
        return tuple(p for p in points if isinstance(self.apply(program, p), Applied))

    def apply(self, program: Program, point: ParameterPoint) -> Applied | Refused:
        """Repeats the bodies of all loops that qualify ``factor`` times."""
        factor = point.number("factor", 0)
        if factor not in _FACTORS:
            return Refused(f"no such unrolling: {point}")
        reachable = reach(program)
        if isinstance(reachable, Refused):
            return reachable
        editor = Editor()
        refusals: list[Refused] = []
        for kernel in reachable.kernels:
            line = broken(kernel)
            if line is not None:
                refusals.append(Refused(f"{kernel.name} does not parse cleanly", line))
                continue
            refusals += _unroll(editor, Scope(kernel, reachable), factor)
        if not editor.edits:
            return [*refusals, _nothing(reachable)][0]
        return editor.finish(program, f"loops unrolled {factor} times", reachable.units)


def _nothing(reachable: Reachable) -> Refused:
    if not reachable.kernels:
        return Refused("the entry reaches no kernel")
    return Refused("no counted loop that loads from global memory")


def _unroll(editor: Editor, scope: Scope, factor: int) -> list[Refused]:
    """Unrolls the loops of one kernel; says what is in the way of others."""
    memory, refusals = global_memory(scope), []
    for node in find(scope.function.body, "for_statement"):
        if not any(a.reads and inside(a.node, node) for a in memory.accesses):
            continue
        refusal = _obstacle(node, scope, memory) or _pragma(editor, scope, node, factor)
        refusals += [] if refusal is None else [refusal]
    return refusals


def _obstacle(node: Node, scope: Scope, memory: GlobalMemory) -> Refused | None:
    """Returns why unrolling a loop would put no more loads under way, or None."""
    line, body = line_of(node), node.child_by_field_name("body")
    index = counted(node)
    if index is None or body is None:
        return Refused("the loop does not count to a bound", line)
    if _is_constant(node, scope):
        return Refused("the compiler unrolls a loop of constant length already", line)
    for inner in find(body, "for_statement", "while_statement", "do_statement"):
        if any(inside(a.node, inner) and a.reads for a in memory.accesses):
            return Refused("the loop's loads are in a loop of their own", line_of(inner))
    for call in find(body, "call_expression", "gnu_asm_expression"):
        name = text_of(call.child_by_field_name("function"))
        fenced = call.type == "gnu_asm_expression" or _FENCES.search(name)
        if fenced:
            return Refused("no load may move across what the loop does here", line_of(call))
    own = [a for a in memory.accesses if inside(a.node, body)]
    first = next((a for a in own if a.writes), None)
    for load in (a for a in own if a.reads and not a.writes):
        stores = {a.root for a in own if a.writes}
        stores |= {root for root, where in memory.escaped.items() if _spans(node, where)}
        apart = (memory.is_restrict(load.root) or memory.is_restrict(root) for root in stores)
        if load.root not in stores and all(apart):
            return None
    if first is None:
        return Refused("what the loop does to the memory it loads cannot be told", line)
    what = f"the next iteration may load what this one stores through {first.root}"
    return Refused(what, line_of(first.node))


def _is_constant(node: Node, scope: Scope) -> bool:
    """Tells whether a counted loop runs from a number to a number."""
    condition = node.child_by_field_name("condition")
    initial = node.child_by_field_name("initializer")
    sides = operands(condition) if condition is not None else None
    declarator = initial.child_by_field_name("declarator") if initial is not None else None
    start = declarator.child_by_field_name("value") if declarator is not None else None
    if sides is None or start is None:
        return False
    return all(literal_value(value_of(end, scope)) is not None for end in (start, sides[1]))


def _spans(node: Node, line: int) -> bool:
    return node.start_point.row < line <= node.end_point.row + 1


def counted(node: Node) -> str | None:
    """Returns the variable that a ``for`` loop counts with, if only its header changes it."""
    initial = node.child_by_field_name("initializer")
    condition = node.child_by_field_name("condition")
    update, body = node.child_by_field_name("update"), node.child_by_field_name("body")
    sides = operands(condition) if condition is not None else None
    if initial is None or update is None or body is None or condition is None or sides is None:
        return None
    target = update.child_by_field_name("left") or update.child_by_field_name("argument")
    index = text_of(bare(sides[0]))
    steps = update.type == "update_expression" or operator(update) in ("+=", "-=", "=")
    if not steps or not index.isidentifier() or text_of(target) != index:
        return None
    if operator(condition) not in ("<", "<=", ">", ">=", "!="):
        return None
    names = (n for n in find(body, "identifier") if text_of(n) == index)
    return None if any(assignment_of(n) is not None for n in names) else index


def _pragma(editor: Editor, scope: Scope, node: Node, factor: int) -> Refused | None:
    """Puts the pragma in front of a loop, or changes the number of the one that is there."""
    unit, before = scope.function.unit, node.prev_sibling
    match = None
    if before is not None and before.type == "preproc_call":
        match = _PRAGMA.match(text_of(before))
    if match is not None and before is not None:
        if match[1] in ("", str(factor)):
            how = f"{factor} times" if match[1] else "whole"
            return Refused(f"the loop is unrolled already, {how}", line_of(before))
        if not match[1].isdigit():
            return Refused(f"the loop is unrolled already, {match[1]} times", line_of(before))
        start = before.start_byte + len(text_of(before)[: match.start(1)].encode())
        editor.note(unit, node, f"unrolled {factor} times instead of {match[1]}")
        editor.cut(unit, start, start + len(match[1]))
        editor.insert(unit, start, str(factor))
        return None
    start = unit.text.rfind(b"\n", 0, node.start_byte) + 1
    indent = unit.text[start : node.start_byte].decode()
    editor.note(unit, node, f"unrolled {factor} times")
    alone = node.parent is None or node.parent.type != "compound_statement"
    opening = "{" if alone else ""
    if alone or indent.strip():
        editor.before(unit, node, f"{opening}\n#pragma unroll {factor}\n")
    else:
        editor.before(unit, node, f"#pragma unroll {factor}\n{indent}")
    if alone:
        editor.after(unit, node, "\n}")
    return None
