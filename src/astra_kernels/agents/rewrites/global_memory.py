"""What a kernel does with the memory behind its pointer parameters, and what escapes from sight.

A pointer that a local variable derives from a parameter counts as that parameter. Every mention of
such a pointer is either an access that is understood here, or an escape: then nothing is promised.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

from astra_kernels.agents.rewrites.reach import Reachable
from astra_kernels.agents.rewrites.scope import Declared, Scope
from astra_kernels.agents.rewrites.syntax import (
    Node,
    ancestors,
    arguments,
    assignment_of,
    bare,
    callee,
    find,
    inside,
    is_reference,
    is_unevaluated,
    line_of,
    operands,
    operator,
    text_of,
    words,
)

CACHED_LOADS = words("__ldg __ldcg __ldca __ldcs __ldlu __ldcv astra_ldg astra_ldcg astra_ldcs")
CACHED_STORES = words("__stcs __stcg __stwb __stwt astra_stcs astra_stcs_as astra_store")
_LOADS_OF_LANES = words("astra_load astra_ldg_lanes astra_ldcg_lanes astra_ldcs_lanes")
_LOADS_INTO = words(
    "astra_ldg_into astra_ldcg_into astra_ldcs_into astra_ldg_cast astra_ldcg_cast astra_ldcs_cast"
)
_METHODS = {"load": True, "cast_load": True, "store": False, "cast_store": False}
_NO_ACCESS = words("astra_is_aligned astra_like")
_CAST = re.compile(r"(?:reinterpret|static|const)_cast\s*<")
_MACRO = re.compile(rb"^[ \t]*#[ \t]*define[ \t]+(\w+)\(", re.MULTILINE)
_OTHER = "@"  # memory of the block or the thread
_DEPTH = 8

Form = Literal["element", "load", "store", "lanes", "method"]


@dataclass(frozen=True, eq=False)
class GlobalAccess:
    """One access to memory behind a parameter.

    Attributes:
        node: The element, or the call that loads or stores.
        form: An ``element`` such as ``p[i]``, a cached ``load`` or ``store``, a load of ``lanes``, or
            a ``method`` of FlashInfer's ``vec_t``.
        root: The parameter.
        address: The element, or the argument that gives the address.
        element: The type that moves, without qualifiers; empty where it cannot be read.
        reads: Whether it loads.
        writes: Whether it stores.
    """

    node: Node
    form: Form
    root: str
    address: Node
    element: str
    reads: bool
    writes: bool


@dataclass(frozen=True, eq=False)
class GlobalMemory:
    """All accesses in source order, and the line where each escaped parameter leaves sight."""

    accesses: tuple[GlobalAccess, ...]
    escaped: Mapping[str, int]
    parameters: Mapping[str, Declared]

    def written(self, root: str) -> int | None:
        """Returns the line of the first write through a parameter, or None."""
        return next((line_of(a.node) for a in self.accesses if a.root == root and a.writes), None)

    def read(self, root: str) -> int | None:
        """Returns the line of the first read through a parameter, or None."""
        return next((line_of(a.node) for a in self.accesses if a.root == root and a.reads), None)

    def is_restrict(self, root: str) -> bool:
        """Tells whether a parameter is ``__restrict__``."""
        return _is_restrict(self.parameters[root])

    def changes(self, root: str) -> tuple[str, int] | None:
        """Returns why the memory of a parameter may change under the kernel, and where, or None."""
        declared = self.parameters[root]
        if not _is_restrict(declared):
            what = f"{root} is not __restrict__: another pointer may write what it reads"
            return what, line_of(declared.node)
        line = self.written(root)
        if line is not None:
            return f"the kernel writes through {root}", line
        if root in self.escaped:
            return f"what happens to {root} here cannot be told", self.escaped[root]
        return None


def global_memory(scope: Scope) -> GlobalMemory:
    """Returns what a kernel does with the memory behind its parameters."""
    return _Reader(scope).read()


class _Reader:
    def __init__(self, scope: Scope) -> None:
        self.scope = scope
        self.body = scope.function.body
        self.macros = source_macros(scope.reachable)
        self.references = reference_takers(scope.reachable)
        self.loads = CACHED_LOADS | scope.reachable.cached_loads
        self.has_vectors = any(u.path.endswith("vec_dtypes.cuh") for u in scope.reachable.units)
        self.reset = _reset(self.body)
        self.parameters = {
            name: found[0]
            for name, found in scope.declared.items()
            if len(found) == 1 and found[0].is_pointer and _is_parameter(found[0])
        }

    def read(self) -> GlobalMemory:
        accesses: list[GlobalAccess] = []
        kinds = ("subscript_expression", "pointer_expression", "call_expression")
        for node in find(self.body, *kinds):
            found = None if is_unevaluated(node) else self._access(node)
            if found is not None:
                accesses.append(found)
        escaped: dict[str, int] = {}
        for leaf in find(self.body, "identifier"):
            root = self.root(text_of(leaf))
            if root not in ("", _OTHER) and not self._is_seen(leaf, accesses):
                escaped.setdefault(root, line_of(leaf))
        return GlobalMemory(tuple(accesses), escaped, self.parameters)

    def root(self, name: str, depth: int = 0) -> str:
        """Returns the parameter a pointer points into, ``@`` for other memory, or nothing."""
        found = self.scope.get(name)
        if found is None or depth > _DEPTH or name in self.reset:
            return ""
        if found.array:
            return _OTHER if not _is_parameter(found) else ""
        if not found.pointers and found.type != "auto":
            return ""
        if name in self.parameters:
            return name
        return "" if found.value is None else self.pointed(found.value, depth + 1)

    def pointed(self, node: Node, depth: int = 0) -> str:
        """Returns the root of a pointer expression."""
        leaf = self.leaf(node)
        return "" if leaf is None else self.root(text_of(leaf), depth)

    def leaf(self, node: Node) -> Node | None:
        """Returns the pointer variable that an address expression starts from."""
        node = bare(node)
        if node.type == "identifier":
            return node
        if node.type == "cast_expression":
            inner = node.child_by_field_name("value")
            return None if inner is None else self.leaf(inner)
        if node.type == "call_expression":
            given = arguments(node)
            cast = _CAST.match(text_of(node.child_by_field_name("function")))
            return self.leaf(given[0]) if cast and len(given) == 1 else None
        if node.type == "pointer_expression" and operator(node) == "&":
            inner = bare(node.child_by_field_name("argument") or node)
            base = inner.child_by_field_name("argument")
            return self.leaf(base) if inner.type == "subscript_expression" and base else None
        sides = operands(node)
        if node.type == "binary_expression" and operator(node) in ("+", "-") and sides is not None:
            leaves = [self.leaf(side) for side in sides]
            known = [leaf for leaf in leaves if leaf is not None and self.root(text_of(leaf))]
            return known[0] if len(known) == 1 else None
        return None

    def pointee(self, node: Node) -> str:
        """Returns the type that a pointer expression points to, without qualifiers, or nothing."""
        node = bare(node)
        target = ""
        if node.type == "identifier":
            found = self.scope.get(text_of(node))
            return "" if found is None or found.pointers != 1 else found.type
        if node.type == "cast_expression":
            target = text_of(node.child_by_field_name("type"))
        elif node.type == "call_expression":
            match = re.match(
                r"\w+_cast\s*<(.*)>\s*$", text_of(node.child_by_field_name("function"))
            )
            target = match[1] if match else ""
        elif node.type == "pointer_expression" and operator(node) == "&":
            inner = bare(node.child_by_field_name("argument") or node)
            base = inner.child_by_field_name("argument")
            return (
                "" if base is None or inner.type != "subscript_expression" else self.pointee(base)
            )
        elif (sides := operands(node)) is not None:
            return next((kind for side in sides if (kind := self.pointee(side))), "")
        target = re.sub(r"\bconst\b|\bvolatile\b", "", target).strip()
        return target[:-1].strip() if target.endswith("*") else ""

    def _access(self, node: Node) -> GlobalAccess | None:
        if node.type == "call_expression":
            return self._call(node)
        base = node.child_by_field_name("argument")
        if base is None or (node.type == "pointer_expression" and operator(node) != "*"):
            return None
        root = self.pointed(base)
        if root in ("", _OTHER) or _address_taken(node):
            return None
        change = assignment_of(node)
        whole = None if change is None else change.child_by_field_name("left")
        plain = change is not None and operator(change) == "=" and whole is not None
        reads = not (plain and whole is not None and bare(whole) == node)
        return GlobalAccess(
            node, "element", root, node, self.pointee(base), reads, change is not None
        )

    def _call(self, node: Node) -> GlobalAccess | None:
        name, given = callee(node), arguments(node)
        if name in self.loads and len(given) == 1:
            return self._through(node, "load", given[0])
        if name in CACHED_STORES and len(given) == 2:
            return self._through(node, "store", given[0])
        if name in _LOADS_OF_LANES and len(given) == 1:
            return self._through(node, "lanes", given[0])
        if name in _LOADS_INTO and len(given) == 2:
            return self._through(node, "method", given[1])
        function = node.child_by_field_name("function")
        if self.has_vectors and function is not None and function.type == "field_expression":
            method = text_of(function.child_by_field_name("field"))
            if method in _METHODS and len(given) == 1:
                return self._through(node, "method", given[0], _METHODS[method])
        return None

    def _through(
        self, node: Node, form: Form, pointer: Node, reads: bool | None = None
    ) -> GlobalAccess | None:
        root = self.pointed(pointer)
        if root in ("", _OTHER):
            return None
        loads = form != "store" if reads is None else reads
        return GlobalAccess(node, form, root, pointer, self.pointee(pointer), loads, not loads)

    def _is_seen(self, leaf: Node, accesses: list[GlobalAccess]) -> bool:
        """Tells whether this mention of a pointer is understood."""
        if is_unevaluated(leaf):
            return True
        access = next((a for a in reversed(accesses) if inside(leaf, a.node)), None)
        for outer in ancestors(leaf):
            if access is not None and outer == access.node:
                return not self._may_change(access)
            if outer.type == "call_expression":
                given = next((a for a in arguments(outer) if inside(leaf, a)), None)
                if callee(outer) in _NO_ACCESS:
                    return True
                if given is not None and not _CAST.match(
                    text_of(outer.child_by_field_name("function"))
                ):
                    return self._is_constant(leaf, given) and callee(outer) not in self.macros
            if outer.type == "init_declarator":
                return self.root(text_of(next(_names(outer), None))) != "" or _is_name(leaf, outer)
            if outer.type == "assignment_expression":
                return text_of(outer.child_by_field_name("left")) == text_of(leaf)
            if outer.type in ("update_expression", "parameter_declaration"):
                return True
            if outer.type == "binary_expression" and operator(outer) in ("==", "!="):
                return True
            if outer.type == "gnu_asm_expression" or outer.type.endswith("statement"):
                return False
        return False

    def _may_change(self, access: GlobalAccess) -> bool:
        """Tells whether an element goes where it may be written: a macro, or a reference."""
        constant = "const" in self.parameters[access.root].qualifiers
        if access.form == "element" and not constant and _is_bound(access.node):
            return True
        for outer in ancestors(access.node):
            if outer.type != "call_expression":
                if outer.type.endswith("statement"):
                    return False
                continue
            if callee(outer) in self.macros:
                return True
            direct = any(bare(given) == access.node for given in arguments(outer))
            if direct and callee(outer) in self.references and access.form == "element":
                return not constant
        return False

    def _is_constant(self, leaf: Node, given: Node) -> bool:
        """Tells whether a call is handed a pointer through which it cannot write."""
        found = self.scope.get(text_of(leaf))
        cast = any(find(given, "cast_expression")) or _CAST.search(text_of(given)) is not None
        return found is not None and "const" in found.qualifiers and not cast


def source_macros(reachable: Reachable) -> frozenset[str]:
    """Returns the names of macros with arguments, cached loads left out."""
    names = {m.decode() for unit in reachable.units for m in _MACRO.findall(unit.text)}
    return frozenset(names) - reachable.cached_loads


def reference_takers(reachable: Reachable) -> frozenset[str]:
    """Returns the device functions that take something by reference that is not constant."""
    odd = re.compile(r"(?:^|[(,])(?![^,]*\bconst\b)[^,]*&")
    return frozenset(f.name for f in reachable.device if odd.search(f.head.partition(f.name)[2]))


def _reset(body: Node) -> frozenset[str]:
    """Returns the variables that are assigned anew, or whose address is taken."""
    names = set()
    for node in find(body, "assignment_expression", "pointer_expression"):
        if node.type == "pointer_expression" and operator(node) == "&":
            names.add(text_of(node.child_by_field_name("argument")))
        elif operator(node) == "=":
            names.add(text_of(node.child_by_field_name("left")))
    return frozenset(names)


def _names(declarator: Node) -> Iterator[Node]:
    name = declarator.child_by_field_name("declarator")
    return iter(()) if name is None else find(name, "identifier")


def _is_name(leaf: Node, declarator: Node) -> bool:
    return any(leaf == name for name in _names(declarator))


def _is_parameter(declared: Declared) -> bool:
    return any(outer.type == "parameter_declaration" for outer in ancestors(declared.node))


def _is_restrict(declared: Declared) -> bool:
    outer = next(o for o in ancestors(declared.node) if o.type == "parameter_declaration")
    return re.search(r"\b(?:__)?restrict(?:__)?\b", text_of(outer)) is not None


def _is_bound(node: Node) -> bool:
    """Tells whether an element gets another name, or a method of it is called."""
    parent = node.parent
    if parent is not None and parent.type == "field_expression":
        call = parent.parent
        return call is not None and call.type == "call_expression"
    return is_reference(node)


def _address_taken(node: Node) -> bool:
    parent = node.parent
    while parent is not None and parent.type in ("parenthesized_expression", "field_expression"):
        parent = parent.parent
    return parent is not None and parent.type == "pointer_expression" and operator(parent) == "&"
