"""Tells the compiler how many threads a block has at most, and how many blocks should be resident.

``__launch_bounds__(threads, blocks)`` (CUDA C++ Programming Guide, launch bounds) lets ptxas choose
registers for exactly these blocks: more where a block is small, fewer where more blocks should share
a multiprocessor. A launch above the bound fails, so every launch in reach must be proven to stay
within it.
"""

from __future__ import annotations

from astra_kernels.agents.rewrites.edits import Editor
from astra_kernels.agents.rewrites.normalise import fingerprint
from astra_kernels.agents.rewrites.program import Applied, ParameterPoint, Program, Refused
from astra_kernels.agents.rewrites.reach import Function, Reachable, broken, reach
from astra_kernels.agents.rewrites.syntax import Node, find, line_of, text_of
from astra_kernels.agents.rewrites.thread_count import most_threads

_WARPS = (0, 64, 32, 48, 16)
"""Resident warps to ask for, of the 64 that a multiprocessor holds; 0 leaves the number open."""
_MAX_BLOCKS = 32


class LaunchBounds:
    """Adds or changes launch bounds; points say how many warps should be resident."""

    name = "launch_bounds"
    technique = "launch_bounds"
    sample = ParameterPoint.of(warps=0)

    def parameters(self, program: Program) -> tuple[ParameterPoint, ...]:
        """Returns the numbers of resident warps that give different bounds."""
        found: dict[str, ParameterPoint] = {}
        for warps in _WARPS:
            point = ParameterPoint.of(warps=warps)
            result = self.apply(program, point)
            if isinstance(result, Applied):
                found.setdefault(fingerprint(result.sources), point)
        return tuple(found.values())

    def apply(self, program: Program, point: ParameterPoint) -> Applied | Refused:
        """Bounds every kernel by its largest block and, unless 0, asks for ``warps`` resident ones."""
        warps = point.number("warps", -1)
        if warps not in _WARPS:
            return Refused(f"no such launch bounds: {point}")
        reachable = reach(program)
        if isinstance(reachable, Refused):
            return reachable
        editor = Editor()
        refusals: list[Refused] = []
        for kernel in reachable.kernels:
            refusal = _bound(editor, kernel, reachable, warps)
            refusals += [] if refusal is None else [refusal]
        if not editor.edits:
            return [*refusals, Refused("the entry reaches no kernel")][0]
        summary = "launch bounds" + (f" for {warps} resident warps" if warps else "")
        return editor.finish(program, summary, reachable.units)


def _bound(editor: Editor, kernel: Function, reachable: Reachable, warps: int) -> Refused | None:
    line = broken(kernel)
    if line is not None:
        return Refused(f"{kernel.name} does not parse cleanly", line)
    threads = most_threads(kernel, reachable)
    if isinstance(threads, Refused):
        return threads
    blocks = min(warps * 32 // threads, _MAX_BLOCKS)
    if warps and not blocks:
        what = f"one block of {kernel.name} has more than {warps} warps"
        return Refused(what, kernel.line)
    present = next(find(kernel.node, "launch_bounds"), None)
    if present is not None:
        return _change(editor, kernel, present, blocks)
    declarator = kernel.node.child_by_field_name("declarator")
    if declarator is None:
        return Refused(f"{kernel.name} has no declarator", kernel.line)
    bounds = (
        f"__launch_bounds__({threads}, {blocks})" if blocks else f"__launch_bounds__({threads})"
    )
    editor.note(kernel.unit, declarator, f"{kernel.name} gets {bounds}")
    editor.before(kernel.unit, declarator, f"{bounds} ")
    return None


def _change(editor: Editor, kernel: Function, present: Node, blocks: int) -> Refused | None:
    """Gives bounds that are there another number of blocks; their threads stay as written."""
    given = [c for c in present.named_children if c.type != "comment"]
    if not given or len(given) > 2:
        return Refused(f"the bounds of {kernel.name} have another form", line_of(present))
    if len(given) == 2 and text_of(given[1]) == str(blocks):
        return Refused(f"{kernel.name} has these bounds already", line_of(present))
    if not blocks:
        return Refused(f"{kernel.name} has launch bounds already", line_of(present))
    editor.note(kernel.unit, present, f"{kernel.name} asks for {blocks} resident blocks")
    if len(given) == 2:
        editor.replace(kernel.unit, given[1], str(blocks))
    else:
        editor.after(kernel.unit, given[0], f", {blocks}")
    return None
