"""What a loop computes or loads anew in every iteration, though it never changes, moves in front.

Divisions, roots and other functions of numbers have no effect, so they move in front of the outermost
loop that leaves them unchanged. A load moves out of its own loop only, if nothing may write
what it reads and every iteration does it; it happens under the loop's own condition, so that a loop
that never runs still loads nothing. No value changes.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from astra_kernels.agents.rewrites.edits import Edit, Editor, splice
from astra_kernels.agents.rewrites.global_memory import GlobalAccess
from astra_kernels.agents.rewrites.invariants import PURE_CALLS, Invariants, is_innocent
from astra_kernels.agents.rewrites.normalise import fingerprint
from astra_kernels.agents.rewrites.program import Applied, ParameterPoint, Program, Refused
from astra_kernels.agents.rewrites.reach import Function, Reachable, broken, reach
from astra_kernels.agents.rewrites.scope import Scope
from astra_kernels.agents.rewrites.syntax import (
    Node,
    arguments,
    bare,
    callee,
    find,
    inside,
    line_of,
    operands,
    operator,
    text_of,
)

_GROUPS = ("div", "call", "load")


class HoistInvariants:
    """Moves unchanging expressions out of loops; points say which kinds."""

    name = "hoist_invariants"
    technique = "hoist_invariants"
    sample = ParameterPoint.of(hoist="div+call+load")

    def parameters(self, program: Program) -> tuple[ParameterPoint, ...]:
        """Returns the kinds that find a place, together and alone."""
        found: dict[str, ParameterPoint] = {}
        for groups in (_GROUPS, *((group,) for group in _GROUPS)):
            result = self._apply(program, groups)
            if isinstance(result, Applied):
                point = ParameterPoint.of(hoist="+".join(groups))
                found.setdefault(fingerprint(result.sources), point)
        return tuple(found.values())

    def apply(self, program: Program, point: ParameterPoint) -> Applied | Refused:
        """Moves the kinds that ``hoist`` names, joined by ``+``: div, call and load."""
        groups = tuple(point.word("hoist").split("+"))
        unknown = [group for group in groups if group not in _GROUPS]
        if unknown:
            return Refused(f"no such kind of expression: {unknown[0]!r}")
        return self._apply(program, groups)

    def _apply(self, program: Program, groups: tuple[str, ...]) -> Applied | Refused:
        """Moves loads first: what is computed from them may then move as well."""
        rest = tuple(group for group in groups if group != "load")
        first = _run(program, ("load",)) if "load" in groups else None
        if first is None or not rest:
            return first or _run(program, rest)
        if isinstance(first, Refused):
            second = _run(program, rest)
            return first if isinstance(second, Refused) else second
        second = _run(program.with_sources(first.sources), rest)
        if isinstance(second, Refused):
            return first
        edits = sorted({*first.edits, *second.edits}, key=lambda change: (change.path, change.line))
        return Applied(second.sources, f"out of loops: {', '.join(groups)}", tuple(edits))


def _run(program: Program, groups: tuple[str, ...]) -> Applied | Refused:
    reachable = reach(program)
    if isinstance(reachable, Refused):
        return reachable
    editor, blocked = Editor(), None
    loads: list[Refused] = []
    for function in reachable.device:
        if function.name.startswith("astra_"):
            continue
        if broken(function) is not None:
            blocked = blocked or function
            continue
        hoist = _Hoist(Invariants(Scope(function, reachable)), groups)
        hoist.collect(loads)
        hoist.edit(editor)
    if not editor.edits:
        return [*loads, _nothing(reachable, blocked)][0]
    return editor.finish(program, f"out of loops: {', '.join(groups)}", reachable.units)


def _nothing(reachable: Reachable, blocked: Function | None) -> Refused:
    if not reachable.device:
        return Refused("the entry reaches no device code")
    if blocked is not None:
        return Refused(f"{blocked.name} does not parse cleanly", broken(blocked))
    return Refused("no loop computes or loads the same in every iteration")


@dataclass(eq=False)
class _Hoist:
    """What moves in front of the loops of one function."""

    invariants: Invariants
    groups: tuple[str, ...]
    moved: dict[int, list[Node]] = field(default_factory=dict)
    loops: dict[int, Node] = field(default_factory=dict)
    guards: dict[int, tuple[str, str]] = field(default_factory=dict)
    """For a load: the condition under which it happens, and its type."""

    def collect(self, refusals: list[Refused]) -> None:
        """Finds the largest expressions of the chosen kinds, and why loads must stay."""
        scope = self.invariants.scope
        taken: list[Node] = []
        accesses = {}
        if "load" in self.groups and scope.function.is_kernel:
            accesses = {a.node.id: a for a in self.invariants.memory.accesses}
        kinds = ("binary_expression", "call_expression", "subscript_expression")
        for node in find(scope.function.body, *kinds, "pointer_expression"):
            if any(inside(node, other) for other in taken):
                continue
            access = accesses.get(node.id)
            loop = self._computed(node) if access is None else self._loaded(access, refusals)
            if loop is not None:
                taken.append(node)
                self.loops[loop.id] = loop
                self.moved.setdefault(loop.id, []).append(node)

    def _computed(self, node: Node) -> Node | None:
        """Returns the outermost loop that leaves a division or call as it is, or None."""
        scope = self.invariants.scope
        if node.type == "binary_expression":
            sides = operands(node)
            if "div" not in self.groups or operator(node) != "/" or sides is None:
                return None
            if scope.kind(node) not in ("float", "double"):
                return None  # of integers, zero must not divide in front of a loop that never runs
        elif node.type == "call_expression":
            pure = callee(node) in PURE_CALLS and arguments(node)
            if "call" not in self.groups or not pure or scope.kind(node) == "other":
                return None
        else:
            return None
        if not self.invariants.depends_on_run_time(node):
            return None
        found = None
        for loop in self.invariants.loops_around(node):
            if not self.invariants.is_fixed(node, loop):
                break
            found = loop
        return found

    def _loaded(self, access: GlobalAccess, refusals: list[Refused]) -> Node | None:
        """Returns the loop that a load can leave, or None."""
        loop = next(self.invariants.loops_around(access.node), None)
        if loop is None or access.writes or access.form not in ("element", "load"):
            return None
        names = {text_of(n) for n in find(access.node, "identifier")}
        if names & self.invariants.changed(loop):
            return None
        reason = self.invariants.memory.changes(access.root)
        if reason is not None:
            refusals.append(Refused(*reason))
            return None
        if not self.invariants.is_fixed_load(access, loop) or not _is_whole(access.node):
            return None
        if not self.invariants.runs_first(access.node, loop):
            refusals.append(Refused("an iteration may leave before it loads", line_of(access.node)))
            return None
        guard = _guard(loop)
        if guard is None or not re.fullmatch(r"\w+", access.element):
            refusals.append(Refused("the loop's condition cannot be asked twice", line_of(loop)))
            return None
        self.guards[access.node.id] = (guard, access.element)
        return loop

    def edit(self, editor: Editor) -> None:
        """Writes the declarations in front of the loops and the names in their places."""
        function = self.invariants.scope.function
        taken = {text_of(leaf) for leaf in find(function.node, "identifier")}
        for key, nodes in self.moved.items():
            names: dict[str, str] = {}
            lines = []
            for node in nodes:
                text = text_of(node)
                if text not in names:
                    names[text] = _fresh(taken)
                    lines.append(self._declaration(node, names[text]))
                editor.note(function.unit, node, f"{' '.join(text.split())} moves out of its loop")
                editor.replace(function.unit, node, names[text])
            _insert(editor, function, self.loops[key], lines)

    def _declaration(self, node: Node, name: str) -> str:
        if node.id not in self.guards:
            return f"const auto {name} = {text_of(node)};"
        guard, element = self.guards[node.id]
        if not guard:
            return f"const {element} {name} = {text_of(node)};"
        return f"const {element} {name} = {guard} ? {text_of(node)} : {element}();"


def _guard(loop: Node) -> str | None:
    """Returns the condition of a loop's first iteration, empty for ``do``, or None if unknown."""
    if loop.type == "do_statement":
        return ""
    condition = loop.child_by_field_name("condition")
    if condition is None or not is_innocent(condition):
        return None
    if loop.type == "while_statement":
        value = condition.child_by_field_name("value")
        if value is None or value.type == "declaration":
            return None
        return f"({text_of(value)})"
    initial = loop.child_by_field_name("initializer")
    if initial is None or initial.type != "declaration":
        return None
    declarators = initial.children_by_field_name("declarator")
    edits = set[Edit]()
    for declarator in declarators:
        name = text_of(declarator.child_by_field_name("declarator"))
        start = declarator.child_by_field_name("value")
        kind = text_of(initial.child_by_field_name("type"))
        if start is None or not name.isidentifier() or not is_innocent(start):
            return None
        first = (
            f"({text_of(start)})" if kind == "auto" else f"static_cast<{kind}>({text_of(start)})"
        )
        offset = condition.start_byte
        for leaf in find(condition, "identifier"):
            if text_of(leaf) == name:
                edits.add(Edit(leaf.start_byte - offset, leaf.end_byte - offset, 0, first))
    text = splice(text_of(condition).encode(), edits)
    return None if text is None or len(declarators) > 1 else f"({text})"


def _is_whole(node: Node) -> bool:
    """Tells whether an element is used as a value, and not a member of it."""
    parent = node.parent
    while parent is not None and parent.type == "parenthesized_expression":
        parent = parent.parent
    odd = ("field_expression", "subscript_expression", "pointer_expression", "init_declarator")
    if parent is None or parent.type not in odd:
        return True
    if parent.type == "init_declarator":
        name = parent.child_by_field_name("declarator")
        return name is not None and name.type == "identifier"
    return bare(parent.child_by_field_name("argument") or parent) != node


def _fresh(taken: set[str]) -> str:
    number = 1
    while f"invariant_{number}" in taken:
        number += 1
    taken.add(f"invariant_{number}")
    return f"invariant_{number}"


def _insert(editor: Editor, function: Function, loop: Node, lines: list[str]) -> None:
    """Puts lines in front of a loop; in braces where only one statement may stand."""
    unit, first = function.unit, loop
    before = loop.prev_sibling
    if before is not None and before.type == "preproc_call" and "unroll" in text_of(before):
        first = before
    start = unit.text.rfind(b"\n", 0, loop.start_byte) + 1
    match = re.match(r"\s*", unit.text[start : loop.start_byte].decode())
    indent = match.group() if match is not None else ""
    alone = loop.parent is None or loop.parent.type != "compound_statement"
    separator = f"\n{indent}"
    text = separator.join(lines) + separator
    if first != loop:
        line = unit.text.rfind(b"\n", 0, first.start_byte) + 1
        editor.insert(unit, line, "".join(f"{indent}{one}\n" for one in lines))
    else:
        editor.before(unit, first, f"{{{separator}{text}" if alone else text)
    if alone:
        editor.after(unit, loop, f"{separator}}}")
