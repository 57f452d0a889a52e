"""Loads and stores that say what the caches should do with the data.

- ``__ldg`` (``ld.global.nc``) is for memory that no one writes while the kernel runs, which must be
  proven; a load that it replaces may then also move ahead of stores.
- ``__ldcs`` marks data that is read once, ``__ldcg`` keeps data out of L1, ``__stcs`` marks results
  that this kernel does not read again (PTX ISA, cache operators). They are hints and change no
  value. Data that every block reads is left out of the first: it should stay where it is.

Types without an overload of the intrinsic move as words of it (``cached_access``).
"""

from __future__ import annotations

from dataclasses import dataclass, field

from astra_kernels.agents.rewrites.cached_access import CACHED, LOADS
from astra_kernels.agents.rewrites.edits import Editor
from astra_kernels.agents.rewrites.global_memory import (
    GlobalAccess,
    GlobalMemory,
    global_memory,
)
from astra_kernels.agents.rewrites.normalise import fingerprint
from astra_kernels.agents.rewrites.prelude import add_prelude
from astra_kernels.agents.rewrites.program import Applied, ParameterPoint, Program, Refused
from astra_kernels.agents.rewrites.reach import Reachable, broken, reach
from astra_kernels.agents.rewrites.scope import Scope
from astra_kernels.agents.rewrites.syntax import (
    Node,
    assignment_of,
    bare,
    callee,
    find,
    is_reference,
    line_of,
    operands,
    text_of,
    words,
)

_POINTS = (
    ("ldcs", "stcs"),
    ("none", "stcs"),
    ("ldcs", "none"),
    ("ldcg", "none"),
    ("ldg", "none"),
    ("ldcg", "stcs"),
    ("ldg", "stcs"),
)
_SCALARS = words(
    "char short int long unsigned float double int8_t uint8_t int16_t uint16_t int32_t uint32_t "
    "int64_t uint64_t"
) | {"char unsigned", "short unsigned", "int unsigned", "long unsigned", "long long"}
_VECTORS = words(
    "char2 char4 short2 short4 int2 int4 uchar2 uchar4 ushort2 ushort4 uint2 uint4 longlong2 "
    "ulonglong2 float2 float4 double2"
)
_HALVES = words("__half __half2 half half2")
_BFLOATS = words("__nv_bfloat16 __nv_bfloat162")


class CachePolicy:
    """Gives loads and stores a cache policy; points say which."""

    name = "cache_policy"
    technique = "cache_policy"
    sample = ParameterPoint.of(load="ldcs", store="stcs")

    def parameters(self, program: Program) -> tuple[ParameterPoint, ...]:
        """Returns the pairs of policies that change something, each different program once."""
        found: dict[str, ParameterPoint] = {}
        for load, store in _POINTS:
            point = ParameterPoint.of(load=load, store=store)
            result = self.apply(program, point)
            if isinstance(result, Applied):
                found.setdefault(fingerprint(result.sources), point)
        return tuple(found.values())

    def apply(self, program: Program, point: ParameterPoint) -> Applied | Refused:
        """Uses ``load`` (ldg, ldcs, ldcg or none) and ``store`` (stcs or none)."""
        load, store = point.word("load", "none"), point.word("store", "none")
        if load not in (*LOADS, "none") or store not in ("stcs", "none") or load == store:
            return Refused(f"no such cache policy: {point}")
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
            place = _Place(scope, global_memory(scope), editor)
            for access in place.memory.accesses:
                refusal = place.store(access, store) if access.writes else place.load(access, load)
                refusals += [] if refusal is None else [refusal]
            add_prelude(editor, kernel.unit, [CACHED[policy] for policy in sorted(place.helpers)])
        if not editor.edits:
            return [*refusals, _nothing(reachable, load, store)][0]
        kept = [name for name in (load, store) if name != "none"]
        return editor.finish(program, f"cache policy: {', '.join(kept)}", reachable.units)


def _nothing(reachable: Reachable, load: str, store: str) -> Refused:
    if not reachable.kernels:
        return Refused("the entry reaches no kernel")
    wanted = "load" if store == "none" else "store" if load == "none" else "access"
    return Refused(f"no {wanted} of global memory that could have this policy")


@dataclass(eq=False)
class _Place:
    """One kernel, and the editor that collects changes."""

    scope: Scope
    memory: GlobalMemory
    editor: Editor
    helpers: set[str] = field(default_factory=set)

    def load(self, access: GlobalAccess, policy: str) -> Refused | None:
        """Gives one load its policy, or says why it must stay."""
        if policy == "none":
            return None
        reason = self.memory.changes(access.root)
        if reason is not None:
            return Refused(*reason)
        if policy == "ldcs" and not self._is_streamed(access):
            return Refused(f"every block reads {access.root}", line_of(access.node))
        if access.form == "element" and not _is_value(access.node):
            return None
        name = self._intrinsic(policy, access)
        if access.form == "lanes":
            name = f"astra_{policy}_lanes"
        elif access.form == "method":
            return self._method(access, policy)
        self._note(access, name)
        if access.form == "element":
            self._element(access.node, name)
        else:
            self._rename(access, name)
        return None

    def store(self, access: GlobalAccess, policy: str) -> Refused | None:
        """Gives one store its policy, or says why it must stay."""
        if policy == "none":
            return None
        line = self.memory.read(access.root)
        if line is not None:
            return Refused(f"the kernel reads what it writes through {access.root}", line)
        if access.root in self.memory.escaped:
            what = f"what happens to {access.root} here cannot be told"
            return Refused(what, self.memory.escaped[access.root])
        if access.form == "method":
            return self._method(access, policy)
        name = self._intrinsic(policy, access)
        if access.form == "store":
            name = "astra_stcs_as" if callee(access.node) == "astra_store" else name
            self._note(access, name)
            self._rename(access, name)
            return None
        change = assignment_of(access.node)
        sides = operands(change) if change is not None else None
        if change is None or sides is None or not _is_statement(change, sides):
            return None
        self._note(access, name)
        self._store_element(change, access.node, name)
        return None

    def _is_streamed(self, access: GlobalAccess) -> bool:
        """Tells whether the address depends on the block, as far as names show."""
        pending, seen = [access.address], set[str]()
        while pending:
            for leaf in find(pending.pop(), "identifier"):
                name = text_of(leaf)
                if name == "blockIdx":
                    return True
                if name in seen:
                    continue
                seen.add(name)
                found = self.scope.declared.get(name, [])
                pending += [one.value for one in found if one.value is not None]
                pending += self._added_to(name)
        return False

    def _added_to(self, name: str) -> list[Node]:
        found = find(self.scope.function.body, "assignment_expression")
        sides = [operands(node) for node in found]
        return [pair[1] for pair in sides if pair is not None and text_of(pair[0]) == name]

    def _intrinsic(self, policy: str, access: GlobalAccess) -> str:
        """Returns the intrinsic where it has an overload for the type, else the helper."""
        text = self.scope.function.unit.text
        direct = _SCALARS | _VECTORS
        direct |= _HALVES if b"cuda_fp16.h" in text else frozenset()
        direct |= _BFLOATS if b"cuda_bf16.h" in text else frozenset()
        kind = " ".join(sorted(access.element.split()))
        own = access.element in self.scope.reachable.classes
        return f"__{policy}" if kind in direct and not own else f"astra_{policy}"

    def _note(self, access: GlobalAccess, name: str) -> None:
        if name.startswith("astra_"):
            self.helpers.add(name.split("_")[1])
        what = "load" if access.reads else "store"
        function = self.scope.function
        self.editor.note(function.unit, access.node, f"a {what} of {access.root} becomes {name}")

    def _rename(self, access: GlobalAccess, name: str) -> None:
        function = access.node.child_by_field_name("function")
        if function is not None and function.type == "template_function":
            function = function.child_by_field_name("name")
        if function is not None and text_of(function) != name:
            self.editor.replace(self.scope.function.unit, function, name)

    def _element(self, node: Node, name: str) -> None:
        """Makes ``name(&p[i])`` of ``p[i]``, and ``name(p + i)`` of ``*(p + i)``."""
        unit = self.scope.function.unit
        if node.type == "subscript_expression":
            self.editor.before(unit, node, f"{name}(&")
        else:
            self.editor.replace(unit, node.children[0], f"{name}(")
        self.editor.after(unit, node, ")")

    def _store_element(self, change: Node, node: Node, name: str) -> None:
        unit = self.scope.function.unit
        sign = change.child_by_field_name("operator")
        if node.type == "subscript_expression":
            self.editor.before(unit, change, f"{name}(&")
        else:
            self.editor.replace(unit, node.children[0], f"{name}(")
        if sign is not None:
            self.editor.cut(unit, node.end_byte, sign.start_byte)
            self.editor.replace(unit, sign, ",")
        self.editor.after(unit, change, ")")

    def _method(self, access: GlobalAccess, policy: str) -> Refused | None:
        """Makes a call of a helper from ``vector.load(p)`` or ``vector.cast_store(p)``."""
        unit, function = self.scope.function.unit, access.node.child_by_field_name("function")
        if function is None or function.type != "field_expression":
            if function is not None and access.reads:
                kind = text_of(function).rsplit("_", 1)[-1]
                self._note(access, f"astra_{policy}_{kind}")
                self._rename(access, f"astra_{policy}_{kind}")
            return None
        vector, cast = function.child_by_field_name("argument"), "cast" in text_of(function)
        given = access.node.child_by_field_name("arguments")
        if vector is None or given is None:
            return None
        suffix = "cast" if cast else "into" if access.reads else "as"
        name = f"astra_{policy}_{suffix}"
        self._note(access, name)
        if access.reads:
            self.editor.before(unit, access.node, f"{name}(")
            self.editor.cut(unit, vector.end_byte, function.end_byte)
            self.editor.replace(unit, given.children[0], ", ")
        else:
            self.editor.replace(unit, function, name)
            self.editor.after(unit, access.address, f", {text_of(vector)}")
        return None


def _is_value(node: Node) -> bool:
    """Tells whether an element stands for its whole value, where a call may stand instead."""
    parent = node.parent
    odd = ("field_expression", "subscript_expression")
    if parent is None or (parent.type in odd and parent.child_by_field_name("argument") == node):
        return False
    return not is_reference(node)


def _is_statement(change: Node, sides: tuple[Node, Node]) -> bool:
    """Tells whether an assignment is a statement of its own, of a value and not a list."""
    parent = change.parent
    alone = parent is not None and parent.type == "expression_statement"
    plain = sides[0] == bare(sides[0]) and sides[1].type != "initializer_list"
    return alone and plain
