"""A reduction tree in shared memory becomes shuffles within warps and one exchange between them.

The tree needs a barrier for every halving; this needs two. Each thread starts from its own element,
which it reads as the tree did, and element 0 holds the result behind a barrier as before, so what
follows stays as it is. Sums of floats associate differently and may round differently; maxima and
minima do not.
"""

from __future__ import annotations

import re

from astra_kernels.agents.rewrites.edits import Edit, Editor, splice
from astra_kernels.agents.rewrites.program import Applied, ParameterPoint, Program, Refused
from astra_kernels.agents.rewrites.reach import broken, reach
from astra_kernels.agents.rewrites.scope import Scope
from astra_kernels.agents.rewrites.syntax import find, text_of
from astra_kernels.agents.rewrites.tree_reduction import (
    Combination,
    TreeReduction,
    tree_reductions,
)

_SHUFFLES = ("xor", "down")


class WarpShuffleReduction:
    """Replaces reduction trees; points say how values move between the lanes of a warp."""

    name = "warp_shuffle_reduction"
    technique = "warp_shuffle_reduction"
    sample = ParameterPoint.of(shuffle="xor")

    def parameters(self, program: Program) -> tuple[ParameterPoint, ...]:
        """Returns both shuffles, if there is a tree to replace."""
        points = tuple(ParameterPoint.of(shuffle=shuffle) for shuffle in _SHUFFLES)
        return tuple(p for p in points if isinstance(self.apply(program, p), Applied))

    def apply(self, program: Program, point: ParameterPoint) -> Applied | Refused:
        """Replaces every tree by shuffles of the kind ``shuffle``: xor or down."""
        shuffle = point.word("shuffle")
        if shuffle not in _SHUFFLES:
            return Refused(f"no such shuffle: {point}")
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
            scope = Scope(kernel, reachable)
            found, reasons, size = tree_reductions(scope, reachable)
            refusals += reasons
            for one in found:
                _replace(editor, scope, one, (size, shuffle))
        if not editor.edits:
            generic = Refused("no reduction in shared memory whose stride halves")
            return [*refusals, generic][0]
        return editor.finish(program, f"warp shuffles ({shuffle}) reduce", reachable.units)


def _replace(editor: Editor, scope: Scope, one: TreeReduction, shape: tuple[int, str]) -> None:
    """Replaces one loop, and removes a pragma that would unroll it."""
    unit, node = scope.function.unit, one.node
    before = node.prev_sibling
    if before is not None and before.type == "preproc_call" and "unroll" in text_of(before):
        editor.cut(unit, before.start_byte, before.end_byte)
    start = unit.text.rfind(b"\n", 0, node.start_byte) + 1
    lead = re.match(r"\s*", unit.text[start : node.start_byte].decode())
    indent = lead.group() if lead is not None else ""
    taken = {text_of(leaf) for leaf in find(scope.function.node, "identifier")}
    lines = _lines(scope, one, shape, taken)
    text = "\n".join(line if line.startswith("#") else f"{indent}{line}" for line in lines)
    arrays = ", ".join(c.array for c in one.combinations)
    editor.note(unit, node, f"shuffles reduce {arrays} instead of a tree")
    editor.replace(unit, node, text.removeprefix(indent))


def _lines(scope: Scope, one: TreeReduction, shape: tuple[int, str], taken: set[str]) -> list[str]:
    """Returns the block that takes the loop's place."""
    size, shuffle = shape
    warps = size // 32
    declared, first, exchanged, second, last = [], [], [], [], []
    for c in one.combinations:
        value, other = f"{c.array}_value", f"{c.array}_other"
        shared = f"{c.array}_warps"
        while {value, other, shared} & taken:
            value, other, shared = f"{value}_", f"{other}_", f"{shared}_"
        step = [
            f"  const {c.element} {other} = __shfl_{shuffle}_sync(0xffffffffu, {value}, {one.stride});",
            f"  {_combined(scope, c, value, other)};",
        ]
        declared += [f"__shared__ {c.element} {shared}[{warps}];"]
        declared += [f"{c.element} {value} = {c.array}[threadIdx.x];"]
        first += step
        exchanged.append(f"  {shared}[threadIdx.x / 32] = {value};")
        second += [f"  {value} = {shared}[threadIdx.x % {warps}];"]
        last.append(f"    {c.array}[0] = {value};")
    step = first
    return [
        "{",
        *(f"  {line}" for line in declared),
        "#pragma unroll",
        f"  for (int {one.stride} = 16; {one.stride} > 0; {one.stride} /= 2) {{",
        *(f"  {line}" for line in step),
        "  }",
        "  if (threadIdx.x % 32 == 0) {",
        *(f"  {line}" for line in exchanged),
        "  }",
        "  __syncthreads();",
        "  if (threadIdx.x < 32) {",
        *(f"  {line}" for line in second),
        "#pragma unroll",
        f"    for (int {one.stride} = {warps // 2}; {one.stride} > 0; {one.stride} /= 2) {{",
        *(f"    {line}" for line in step),
        "    }",
        "    if (threadIdx.x == 0) {",
        *(f"  {line}" for line in last),
        "    }",
        "  }",
        "  __syncthreads();",
        "}",
    ]


def _combined(scope: Scope, c: Combination, value: str, other: str) -> str:
    """Returns the step's own expression on two registers."""
    start = c.statement.start_byte
    edits = {Edit(n.start_byte - start, n.end_byte - start, 0, value) for n in c.own}
    edits.add(Edit(c.other.start_byte - start, c.other.end_byte - start, 0, other))
    return splice(scope.function.unit.text[start : c.statement.end_byte], edits) or ""
