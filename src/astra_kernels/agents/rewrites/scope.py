"""What a function declares, and the arithmetic kind of its expressions."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from astra_kernels.agents.rewrites.reach import Constant, Function, Reachable
from astra_kernels.agents.rewrites.syntax import (
    Node,
    arguments,
    callee,
    find,
    operator,
    text_of,
    words,
)

Kind = Literal["float", "double", "int", "other"]

_INTEGERS = re.compile(
    r"(?:u?int(?:8|16|32|64)?(?:_t)?|(?:unsigned|signed|long|short|int|char|bool|\s)+|s?size_t|uint"
    r"|std::size_t|u?int\d+_t|ptrdiff_t|index_t)"
)
_FLOAT_CALLS = words(
    "expf __expf exp2f logf __logf log2f __log2f log10f __log10f sqrtf rsqrtf powf __powf "
    "tanhf sinf cosf tanf erff fabsf fmaxf fminf fmaf __fdividef __frcp_rn __fmul_rn "
    "__fadd_rn __fsqrt_rn __half2float __bfloat162float __low2float __high2float "
    "__int2float_rn float expm1f log1pf ptx_exp2 ptx_log2 ptx_rcp __sinf __cosf __fmaf_rn "
    "__frsqrt_rn __tanhf floorf ceilf"
)
_GENERIC_CALLS = words(
    "exp log sqrt rsqrt pow tanh sin cos max min fabs abs exp2 log2 erf __shfl_xor_sync "
    "__shfl_down_sync __shfl_sync __ldg"
)


@dataclass(frozen=True, eq=False)
class Declared:
    """A parameter or variable.

    Attributes:
        name: Its name.
        type: Its base type's text, without qualifiers, pointers and references.
        pointers: How many ``*`` it has.
        array: Whether it is an array, or a pointer by way of ``[]``.
        qualifiers: The qualifiers, such as ``const`` and ``__shared__``.
        value: Its initialiser, constructor arguments included.
        node: The identifier where it is declared.
    """

    name: str
    type: str
    pointers: int
    array: bool
    qualifiers: frozenset[str]
    value: Node | None
    node: Node

    @property
    def is_pointer(self) -> bool:
        """Whether it points to device or generic memory rather than being an array itself."""
        return self.pointers == 1 and not self.array


class Scope:
    """The declarations of one function, by name; a name declared twice has no answer.

    Args:
        function: The function.
        reachable: What its names may mean outside it.
    """

    def __init__(self, function: Function, reachable: Reachable) -> None:
        self.function = function
        self.reachable = reachable
        self.declared: dict[str, list[Declared]] = {}
        outer = function.template or function.node
        for node in find(outer, "parameter_declaration", "declaration", "for_range_loop"):
            for found in _declared(node):
                self.declared.setdefault(found.name, []).append(found)
        self.assigned: Mapping[str, int] = _assignments(function.body)

    def get(self, name: str) -> Declared | None:
        """Returns the one declaration of a name, or None where there is none or several."""
        found = self.declared.get(name, [])
        return found[0] if len(found) == 1 else None

    def constant(self, name: str) -> Declared | None:
        """Returns the declaration of a variable that keeps its initial value, or None."""
        found = self.get(name)
        return None if found is None or self.assigned.get(name) else found

    def outer_constant(self, name: str) -> Constant | None:
        """Returns the one constant outside functions that a name means here, or None."""
        found = self.reachable.constants.get(name, ())
        return found[0] if len(found) == 1 and name not in self.declared else None

    def type_of(self, name: str) -> Kind:
        """Returns the kind of a variable, or of what a pointer or array holds."""
        found = self.declared.get(name, [])
        kinds = {self._declared_kind(one) for one in found}
        return kinds.pop() if len(kinds) == 1 else "other"

    def _declared_kind(self, one: Declared) -> Kind:
        if one.type == "auto" and one.value is not None and not one.pointers:
            return self.kind(one.value)
        return kind_of_type(one.type)

    def kind(self, node: Node) -> Kind:
        """Returns the arithmetic kind of an expression, ``other`` where it cannot be told."""
        simple = self._leaf_kind(node)
        if simple is not None:
            return simple
        if node.type in ("parenthesized_expression", "unary_expression", "conditional_expression"):
            parts = [c for c in node.named_children if c.type != "comment"]
            if node.type == "conditional_expression":
                parts = parts[1:]
            return promote([self.kind(part) for part in parts])
        if node.type == "binary_expression":
            if operator(node) in ("<", ">", "<=", ">=", "==", "!=", "&&", "||"):
                return "int"
            sides = [node.child_by_field_name("left"), node.child_by_field_name("right")]
            return promote([self.kind(side) for side in sides if side is not None])
        return "other"

    def _leaf_kind(self, node: Node) -> Kind | None:
        if node.type == "number_literal":
            return literal_kind(text_of(node))
        if node.type == "identifier":
            found = self.get(text_of(node))
            if found is not None and (found.pointers or found.array):
                return "other"
            return self.type_of(text_of(node))
        if node.type == "field_expression":
            base = text_of(node.child_by_field_name("argument"))
            if base in ("threadIdx", "blockIdx", "blockDim", "gridDim"):
                return "int"
            vector = re.fullmatch(r"(float|int|uint)[234]", self._base_type(base))
            return "other" if vector is None else ("float" if vector[1] == "float" else "int")
        if node.type == "subscript_expression":
            return self._subscript_kind(node)
        if node.type == "cast_expression":
            target = text_of(node.child_by_field_name("type"))
            return kind_of_type(target) if "*" not in target else "other"
        if node.type == "call_expression":
            return self._call_kind(node)
        return None

    def _base_type(self, name: str) -> str:
        found = self.get(name)
        return "" if found is None or found.pointers or found.array else found.type

    def _subscript_kind(self, node: Node) -> Kind:
        base = node.child_by_field_name("argument")
        found = None if base is None else self.get(text_of(base))
        if found is None:
            return "other"
        if found.pointers + found.array == 1:
            return kind_of_type(found.type)
        if not found.pointers and re.match(r"(?:\w+::)*vec_t<\s*float\b", found.type):
            return "float"
        return "other"

    def _call_kind(self, node: Node) -> Kind:
        name, given = callee(node), arguments(node)
        if name in _FLOAT_CALLS:
            return "float"
        if name in ("double", "int", "static_cast"):
            template = text_of(node.child_by_field_name("function"))
            target = re.fullmatch(r"static_cast\s*<(.*)>", template)
            return kind_of_type(target[1].strip() if target else name)
        if name in _GENERIC_CALLS:
            values = given[1:2] if name.startswith("__shfl") else given
            return promote([self.kind(value) for value in values])
        return kind_of_type(self.reachable.results.get(name, ""))


def kind_of_type(text: str) -> Kind:
    """Returns the kind of a type named without qualifiers."""
    text = re.sub(r"\bconst\b|&|\bvolatile\b", "", text).strip()
    if text in ("float", "double"):
        return "float" if text == "float" else "double"
    return "int" if _INTEGERS.fullmatch(text) else "other"


def literal_kind(text: str) -> Kind:
    """Returns the kind of a number literal."""
    lowered = text.lower().replace("'", "")
    if lowered.startswith("0x") and "p" not in lowered:
        return "int"
    if lowered.endswith("f"):
        return "float"
    return "double" if re.search(r"[.ep]", lowered) else "int"


def promote(kinds: list[Kind]) -> Kind:
    """Returns the kind of arithmetic on these kinds."""
    if not kinds or "other" in kinds:
        return "other"
    if "double" in kinds:
        return "double"
    return "float" if "float" in kinds else "int"


def _declared(node: Node) -> list[Declared]:
    kinds = ("type_qualifier", "storage_class_specifier")
    qualifiers = frozenset(text_of(c) for c in node.children if c.type in kinds)
    base = re.sub(r"\b(?:const|volatile)\b", "", text_of(node.child_by_field_name("type"))).strip()
    found = []
    for child in node.children_by_field_name("declarator"):
        one = _declarator(child, base, qualifiers)
        if one is not None:
            found.append(one)
    return found


def _declarator(node: Node, base: str, qualifiers: frozenset[str]) -> Declared | None:
    value: Node | None = None
    pointers, array = 0, False
    current: Node | None = node
    while current is not None and current.type != "identifier":
        if current.type == "init_declarator":
            value = current.child_by_field_name("value")
        elif current.type == "pointer_declarator":
            pointers += 1
        elif current.type == "array_declarator":
            array = True
        elif current.type == "function_declarator":  # ``dim3 grid(n)`` reads as a prototype
            value = current.child_by_field_name("parameters")
        elif current.type == "reference_declarator":
            value = None  # it may change under another name
            current = current.named_children[0] if current.named_children else None
            continue
        current = current.child_by_field_name("declarator")
    if current is None:
        return None
    return Declared(text_of(current), base, pointers, array, qualifiers, value, current)


def _assignments(body: Node) -> dict[str, int]:
    """Counts, by name, the writes to plain variables and the times an address is taken."""
    counts: dict[str, int] = {}
    for node in find(body, "assignment_expression", "update_expression", "pointer_expression"):
        target = node.child_by_field_name("left") or node.child_by_field_name("argument")
        if node.type == "pointer_expression" and not text_of(node).startswith("&"):
            continue
        if target is not None and target.type == "identifier":
            counts[text_of(target)] = counts.get(text_of(target), 0) + 1
    return counts
