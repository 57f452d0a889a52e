"""Code that is written for vectors through a constant gets another legal value of it.

Two spellings are known: bytes, as in ``vec_size = 16 / sizeof(T)``, and a count, as in the template
argument of a parameter ``vec_size``. Fewer elements always divide what more did. More are legal
where the code bounds them itself (``gcd(.., d)``, ``max(.., HEAD_DIM / 32)``) or where the
definition promises the multiple.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from astra_kernels.agents.rewrites.bounds import literal_value
from astra_kernels.agents.rewrites.edits import Editor
from astra_kernels.agents.rewrites.launches import Launch, launches, template_arguments
from astra_kernels.agents.rewrites.program import Applied, ParameterPoint, Program, Refused
from astra_kernels.agents.rewrites.reach import Function, Reachable
from astra_kernels.agents.rewrites.syntax import (
    Node,
    ancestors,
    bare,
    callee,
    find,
    line_of,
    operands,
    operator,
    text_of,
)

_VECTOR_NAME = re.compile(r"vec|lanes|pack", re.IGNORECASE)
_FIXED_TYPES = re.compile(r"\b(?:float4|uint4|int4|float2|uint2|int2)\b")
_NARROW_TYPES = re.compile(r"\b(?:u?int8_t|char|__nv_fp8\w*|__nv_fp4\w*)\b")
_LEGAL = (1, 2, 4, 8, 16, 32)
_LEAST_BYTES = 8  # of the widest arithmetic type


@dataclass(frozen=True, eq=False)
class Site:
    """One place where the number stands.

    Attributes:
        function: The function it stands in.
        node: The literal.
        value: Its value.
        name: The constant or template parameter that it sets.
        guard: ``gcd`` or ``max`` where the code bounds the constant itself, else empty.
        launch: The launch whose template argument it is, if it is one.
    """

    function: Function
    node: Node
    value: int
    name: str
    guard: str
    launch: Launch | None


def constant_points(program: Program, reachable: Reachable) -> tuple[ParameterPoint, ...]:
    """Returns the other legal values, the nearest first, wider before narrower."""
    found = _sites(reachable)
    if not found:
        return ()
    value = found[0].value
    near = sorted(_LEGAL, key=lambda new: (max(new / value, value / new), -new))
    points = [new for new in near if isinstance(change_constant(program, reachable, new), Applied)]
    return tuple(ParameterPoint.of(constant=new) for new in points)


def change_constant(program: Program, reachable: Reachable, new: int) -> Applied | Refused:
    """Returns the program with the constant's number changed to ``new``, or why it must stay."""
    found = _sites(reachable)
    if not found:
        return Refused("no constant that sets the width of vectors")
    if len({site.value for site in found}) != 1:
        return Refused("several constants set the width of vectors", line_of(found[0].node))
    old = found[0].value
    if new == old or new not in _LEGAL:
        return Refused(f"{new} is no other legal width")
    editor = Editor()
    for site in found:
        refusal = _illegal(site, new, program, reachable)
        if refusal is not None:
            return refusal
        unit = site.function.unit
        editor.note(unit, site.node, f"{site.name} is set from {new} instead of {old}")
        editor.replace(unit, site.node, text_of(site.node).replace(str(old), str(new), 1))
        for node in _coupled(site):
            editor.replace(unit, node, text_of(node).replace(str(old), str(new), 1))
    return editor.finish(program, f"vector constant {old} becomes {new}", reachable.units)


def _sites(reachable: Reachable) -> list[Site]:
    found = [*_byte_sites(reachable), *_count_sites(reachable)]
    unique = {(site.function.unit.path, site.node.start_byte): site for site in found}
    return list(unique.values())


def _byte_sites(reachable: Reachable) -> Iterator[Site]:
    for function in reachable.functions:
        for node in find(function.body, "init_declarator"):
            name = text_of(node.child_by_field_name("declarator"))
            value = node.child_by_field_name("value")
            if value is None or not _VECTOR_NAME.search(name):
                continue
            for division in find(value, "binary_expression"):
                sides = operands(division)
                if sides is None or operator(division) != "/" or "sizeof" not in text_of(sides[1]):
                    continue
                number = literal_value(bare(sides[0]))
                if number in (4, 8, 16, 32):
                    literal = bare(sides[0])
                    yield Site(function, literal, int(number), name, _guard(literal, node), None)


def _guard(node: Node, outer: Node) -> str:
    """Returns the function around a number that keeps the result legal."""
    for one in ancestors(node):
        if one == outer:
            return ""
        name = callee(one) if one.type == "call_expression" else ""
        if name in ("gcd", "max"):
            return name
    return ""


def _count_sites(reachable: Reachable) -> Iterator[Site]:
    kernels = {kernel.name: kernel for kernel in reachable.kernels}
    for launch in launches(reachable):
        if not isinstance(launch, Launch):
            continue
        for name, argument in template_arguments(launch, kernels[launch.kernel]):
            number = literal_value(argument)
            if number in (2, 4, 8, 16) and _VECTOR_NAME.search(name):
                yield Site(launch.host, argument, int(number), name, "", launch)


def _illegal(site: Site, new: int, program: Program, reachable: Reachable) -> Refused | None:
    line = line_of(site.node)
    if any(_FIXED_TYPES.search(text_of(kernel.node)) for kernel in reachable.kernels):
        return Refused("the kernel moves vectors of a fixed type", line)
    if any("cp_async" in text_of(kernel.node) for kernel in reachable.kernels):
        return Refused("asynchronous copies have fixed widths", line)
    if site.launch is None and new < _LEAST_BYTES:
        return Refused(f"{new} bytes may hold no element", line)
    if new < site.value:
        if site.launch is None and _grows_block(site, reachable):
            return Refused("the block grows as vectors shrink, and nothing bounds it", line)
        return None
    if site.launch is not None:
        promised = _promised(site, program)
        return (
            None if promised % new == 0 else Refused(f"nothing promises multiples of {new}", line)
        )
    if not site.guard:
        return Refused("nothing in the code bounds wider vectors", line)
    entry = reachable.entry.unit.text.decode()
    if new > 16 and site.guard == "gcd" and _NARROW_TYPES.search(entry):
        return Refused("elements of one byte would make vectors too long", line)
    return None


def _grows_block(site: Site, reachable: Reachable) -> bool:
    """Tells whether host code divides by the constant outside any ``min``."""
    if site.function not in reachable.host:
        return False
    for node in find(site.function.body, "binary_expression"):
        sides = operands(node)
        if sides is None or operator(node) != "/" or text_of(bare(sides[1])) != site.name:
            continue
        if not any(o.type == "call_expression" and "min" in _name(o) for o in ancestors(node)):
            return True
    return False


def _name(call: Node) -> str:
    return re.sub(r"<.*", "", text_of(call.child_by_field_name("function")))


def _promised(site: Site, program: Program) -> int:
    """Returns the multiple that all arguments divided by the count are known to be of, or 1."""
    divided = []
    for node in _coupled(site):
        parent = node.parent
        sides = operands(parent) if parent is not None else None
        if sides is not None and parent is not None and operator(parent) == "/":
            divided.append(program.multiples.get(text_of(bare(sides[0])), 1))
    return min(divided, default=1)


def _coupled(site: Site) -> list[Node]:
    """Returns the same number in the launch's grid and block, where it divides."""
    if site.launch is None:
        return []
    found = []
    for outer in (site.launch.grid, site.launch.block):
        for node in find(outer, "number_literal"):
            parent = node.parent
            sides = operands(parent) if parent is not None else None
            if literal_value(node) == site.value and sides is not None and sides[1] == node:
                found.append(node)
    return found
