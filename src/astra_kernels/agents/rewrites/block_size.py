"""Another number of threads per block, where the kernel is sure to work with any.

The number is changed where it is written, and so is every literal that repeats it: launch bounds,
arrays in shared memory, counts of warps, template arguments and the rounding of the grid. A kernel
qualifies if each use of its thread index is one whose meaning does not depend on the block's size.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from astra_kernels.agents.rewrites.block_seed import Seed, seed_of
from astra_kernels.agents.rewrites.bounds import literal_value
from astra_kernels.agents.rewrites.edits import Editor
from astra_kernels.agents.rewrites.launches import (
    Launch,
    OpaqueLaunch,
    components,
    launches,
    template_arguments,
)
from astra_kernels.agents.rewrites.program import Applied, Program, Refused
from astra_kernels.agents.rewrites.reach import Function, Reachable, broken
from astra_kernels.agents.rewrites.scope import Scope
from astra_kernels.agents.rewrites.syntax import (
    Node,
    ancestors,
    callee,
    find,
    line_of,
    operator,
    text_of,
)
from astra_kernels.agents.rewrites.thread_index import global_index, size_dependence

_BLOCK_NAME = re.compile(r"block|thread|bdim|nthr|tpb|blk", re.IGNORECASE)


@dataclass(frozen=True, eq=False)
class Geometry:
    """A kernel, its launches, and the number that sizes their blocks."""

    kernel: Function
    launches: tuple[Launch, ...]
    seed: Seed


def geometries(reachable: Reachable) -> tuple[list[Geometry], list[Refused]]:
    """Returns the kernels whose block size is one number, and why others have none."""
    by_kernel: dict[str, list[Launch]] = {}
    refusals: list[Refused] = []
    for launch in launches(reachable):
        if isinstance(launch, OpaqueLaunch):
            refusals.append(Refused(launch.reason, launch.line))
        else:
            by_kernel.setdefault(launch.kernel, []).append(launch)
    found: list[Geometry] = []
    for kernel in reachable.kernels:
        own = by_kernel.get(kernel.name, [])
        if not own:
            refusals.append(Refused(f"no launch of {kernel.name} is in reach", kernel.line))
            continue
        seeds = [seed_of(launch, reachable) for launch in own]
        refused = next((seed for seed in seeds if isinstance(seed, Refused)), None)
        good = [seed for seed in seeds if isinstance(seed, Seed)]
        if refused is not None:
            refusals.append(refused)
        elif len({(seed.size, seed.rows) for seed in good}) != 1:
            refusals.append(Refused(f"{kernel.name} is launched in several sizes", kernel.line))
        else:
            found += [Geometry(kernel, tuple(own), seed) for seed in good[:1]]
    return found, refusals


def change_block(program: Program, reachable: Reachable, size: int) -> Applied | Refused:
    """Returns the program with ``size`` threads per block wherever that is safe."""
    found, refusals = geometries(reachable)
    resizes = [_Resize(reachable, geometry, size) for geometry in found]
    refused = {resize.geometry.kernel.name: resize.refusal() for resize in resizes}
    good = {name for name, refusal in refused.items() if refusal is None}
    refusals += [refusal for refusal in refused.values() if refusal is not None]
    editor = Editor()
    for resize in resizes:
        if resize.geometry.kernel.name not in good:
            continue
        shared = resize.shared_with(good)
        if shared is not None:
            refusals.append(shared)
        else:
            resize.edit(editor)
    if not editor.edits:
        return refusals[0] if refusals else Refused("the entry reaches no kernel")
    return editor.finish(program, f"{size} threads a block", reachable.units)


@dataclass(frozen=True, eq=False)
class _Resize:
    reachable: Reachable
    geometry: Geometry
    size: int

    @property
    def functions(self) -> list[Function]:
        """The kernel and the device functions it may call that look at the block."""
        kernel = self.geometry.kernel
        names = {text_of(n) for n in find(kernel.node, "identifier", "field_identifier")}
        helpers = [f for f in self.reachable.device if not f.is_kernel and f.name in names]
        words = ("threadIdx", "blockDim", "__shared__")
        return [kernel, *(f for f in helpers if any(w in text_of(f.node) for w in words))]

    def shared_with(self, resized: set[str]) -> Refused | None:
        """Refuses where the number also sizes the blocks of code that keeps its size."""
        seed, reachable = self.geometry.seed, self.reachable
        line = line_of(seed.node)
        constants = seed.names & set(reachable.constants)
        hosts = {launch.host.node.id for launch in self.geometry.launches}
        for launch in launches(reachable):
            if isinstance(launch, OpaqueLaunch) or launch.kernel in resized:
                continue
            behind = _names_behind(launch.block, launch.scope)
            if behind & constants or (launch.host.node.id in hosts and behind & seed.names):
                return Refused(f"the number also sizes the blocks of {launch.kernel}", line)
        for function in reachable.others:
            names = {text_of(n) for n in find(function.node, "identifier", "type_identifier")}
            own = any(f.unit.path == function.unit.path for f in (self.geometry.kernel,))
            if names & constants or (own and self.geometry.kernel.name in names and self.arrays):
                what = f"{function.name}, which the entry does not reach, shares the block size"
                return Refused(what, line)
        return None

    @property
    def arrays(self) -> list[tuple[Function, Node]]:
        """The numbers in device code that repeat the block size or its warps."""
        old = self.geometry.seed.size
        found = []
        for function in self.functions:
            for node in find(function.node, "number_literal"):
                value = literal_value(node)
                is_warps = value == old // 32 and old != 1024 and _in_shared_array(node)
                if (value == old and _sizes_something(node)) or is_warps:
                    found.append((function, node))
        return found

    def refusal(self) -> Refused | None:
        """Returns why the kernel must keep its size, or None."""
        if self.geometry.seed.size == self.size:
            return Refused(f"the block already has {self.size} threads")
        for name, node in self._template_literals():
            if literal_value(node) == self.geometry.seed.size and not _BLOCK_NAME.search(name):
                return Refused(f"the template argument {name} may be the block size", line_of(node))
        for function in self.functions:
            line = broken(function)
            if line is not None:
                return Refused(f"{function.name} does not parse cleanly", line)
            scope = Scope(function, self.reachable)
            refusal = size_dependence(scope, self.geometry.seed, self.size)
            if refusal is not None:
                return refusal
        return self._shared_refusal() or self._grid_refusal()

    def _shared_refusal(self) -> Refused | None:
        """Refuses to grow past a dynamic shared memory size that does not follow the block."""
        seed = self.geometry.seed
        for launch in self.geometry.launches:
            shared = launch.shared
            if shared is None or self.size < seed.size or text_of(shared) in ("0", "nullptr"):
                continue
            names = _names_behind(shared, launch.scope)
            numbers = {literal_value(n) for n in find(shared, "number_literal")}
            if not names & seed.names and not numbers & {seed.size, seed.size // 32, 32, 33}:
                return Refused("shared memory does not grow with the block", line_of(shared))
        return None

    def _grid_refusal(self) -> Refused | None:
        """Refuses where blocks share out elements and the grid does not follow the block."""
        seed = self.geometry.seed
        kernel = self.geometry.kernel
        found = global_index(Scope(kernel, self.reachable))
        if found is None:
            return None
        if not found.guarded:
            return Refused("elements past the end have no guard", found.line)
        for launch in self.geometry.launches:
            names = _names_behind(launch.grid, launch.scope)
            numbers = {literal_value(n) for n in self._grid_literals(launch)}
            follows = names & seed.names or seed.size in numbers
            rounds_up = bool(numbers & {seed.size - 1, 1}) or any(
                "ceil" in n.lower() or "div" in n.lower() for n in names
            )
            if not follows or not rounds_up:
                return Refused("the grid does not follow the block", line_of(launch.grid))
        return None

    def _grid_literals(self, launch: Launch) -> list[Node]:
        """Returns the numbers of a grid expression and of the variables behind it."""
        found: list[Node] = []
        pending, seen = [launch.grid, *(components(launch.grid, launch.scope) or [])], set[str]()
        while pending:
            node = pending.pop()
            found += find(node, "number_literal")
            for leaf in find(node, "identifier"):
                one = launch.scope.constant(text_of(leaf))
                if one is not None and one.value is not None and one.name not in seen:
                    seen.add(one.name)
                    pending.append(one.value)
        return [n for n in found if n.start_byte != self.geometry.seed.node.start_byte]

    def edit(self, editor: Editor) -> None:
        """Writes the new size wherever the old one stands."""
        seed, old = self.geometry.seed, self.geometry.seed.size
        editor.note(seed.unit, seed.node, f"{old} becomes {self.size} threads a block")
        editor.replace(seed.unit, seed.node, _like(seed.node, old, self.size))
        for launch in self.geometry.launches:
            numbers = list(find(launch.block, "number_literal"))
            numbers += [node for _, node in template_arguments(launch, self.geometry.kernel)]
            numbers += [n for n in self._grid_literals(launch) if _rounds(n)]
            numbers += find(launch.shared, "number_literal") if launch.shared is not None else ()
            for node in numbers:
                self._swap(editor, launch.host, node)
            if launch.shared is not None:
                self._warps(editor, launch.host, launch.shared)
        for function, node in self.arrays:
            self._swap(editor, function, node)
            self._warps(editor, function, node)
        for function in self.functions:
            for bounds in find(function.node, "launch_bounds"):
                self._bounds(editor, function, bounds)

    def _template_literals(self) -> list[tuple[str, Node]]:
        kernel = self.geometry.kernel
        return [a for launch in self.geometry.launches for a in template_arguments(launch, kernel)]

    def _swap(self, editor: Editor, function: Function, node: Node) -> None:
        old, value = self.geometry.seed.size, literal_value(node)
        if value == old:
            editor.replace(function.unit, node, _like(node, old, self.size))
        elif value == old - 1 and _rounds(node):
            editor.replace(function.unit, node, _like(node, old - 1, self.size - 1))

    def _warps(self, editor: Editor, function: Function, outer: Node) -> None:
        warps = self.geometry.seed.size // 32
        for node in find(outer, "number_literal"):
            if literal_value(node) == warps and warps != 32:
                editor.replace(function.unit, node, _like(node, warps, max(self.size // 32, 1)))

    def _bounds(self, editor: Editor, function: Function, bounds: Node) -> None:
        first = next(iter(bounds.named_children), None)
        value = None if first is None else literal_value(first)
        if first is not None and value is not None and value < self.size:
            editor.replace(function.unit, first, str(self.size))


def _names_behind(node: Node, scope: Scope) -> frozenset[str]:
    """Returns the names in an expression and in the initialisers of its variables."""
    seen: set[str] = set()
    pending = [node]
    while pending:
        for leaf in find(pending.pop(), "identifier", "type_identifier"):
            name = text_of(leaf)
            if name in seen:
                continue
            seen.add(name)
            found = scope.get(name)
            if found is not None and found.value is not None:
                pending.append(found.value)
    return frozenset(seen)


def _sizes_something(node: Node) -> bool:
    """Tells whether a number is a template argument or the extent of an array."""
    outer = node.parent
    return outer is not None and (outer.type == "template_argument_list" or _in_shared_array(node))


def _in_shared_array(node: Node) -> bool:
    declaration = next((o for o in ancestors(node) if o.type == "declaration"), None)
    array = any(o.type == "array_declarator" for o in ancestors(node))
    return array and declaration is not None and "__shared__" in text_of(declaration)


def _rounds(node: Node) -> bool:
    """Tells whether a number divides, or rounds up before a division."""
    for outer in ancestors(node):
        name = callee(outer).lower() if outer.type == "call_expression" else ""
        if "div" in name or "ceil" in name or operator(outer) == "/":
            return True
    return False


def _like(node: Node, old: int, new: int) -> str:
    """Returns a literal's or macro's text with its number exchanged and its suffix kept."""
    return text_of(node).replace(str(old), str(new), 1)
