"""Slow float arithmetic in device code becomes the hardware's approximate instructions.

Only expressions whose kind is proven to be ``float`` change; a template's ``T`` is left alone.
Every form keeps infinities, zeros and NaNs where they were:

- ``__expf`` and ``__logf`` have the limits of ``expf`` and ``logf`` (CUDA C++ Programming Guide,
  intrinsic functions); their error grows with the argument, which is for the judge to weigh.
- ``__fdividef(a, b)`` returns 0 for 2^126 < |b| < 2^128 and loses tiny ``b``. It replaces a
  division directly only where ``b`` was an integer. Elsewhere helpers around PTX's
  ``rcp.approx.ftz.f32`` (PTX ISA, rcp) scale their operands into its range, without a branch:
  ptxas lines up divisions that may branch one after the other, and that, not the arithmetic, is
  what makes them slow. ``__frcp_rn`` branches as a division does.
- ``a * rsqrtf(x)`` overflows and vanishes exactly where ``a / sqrtf(x)`` does.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from astra_kernels.agents.rewrites.bounds import at_least_one, is_count, is_number, literal_value
from astra_kernels.agents.rewrites.edits import Editor
from astra_kernels.agents.rewrites.prelude import DIVIDE, RECIPROCAL, TANH, add_prelude
from astra_kernels.agents.rewrites.program import Applied, ParameterPoint, Program, Refused
from astra_kernels.agents.rewrites.reach import Function, Reachable, broken, reach
from astra_kernels.agents.rewrites.scope import Scope, literal_kind
from astra_kernels.agents.rewrites.syntax import (
    Node,
    ancestors,
    arguments,
    bare,
    callee,
    find,
    operands,
    operator,
    text_of,
)

_EXP = {"exp": "__expf", "expf": "__expf", "log": "__logf", "logf": "__logf"}
_EXP |= {"exp10f": "__exp10f", "log2f": "__log2f", "log10f": "__log10f"}
_TRIG = {"sin": "__sinf", "sinf": "__sinf", "cos": "__cosf", "cosf": "__cosf"}
_ORDER = ("exp", "div", "rcp", "rsqrt", "power", "literal", "tanh", "trig")
# ``rcp`` and ``div`` are two forms of the same division; tanh and trig are much less exact.
_COMBINED = (("exp", "rcp"), ("exp", "div"), ("exp", "div", "rsqrt", "power", "literal"))
_ALL = ("exp", "div", "rsqrt", "power", "literal", "tanh", "trig")


@dataclass(frozen=True, eq=False)
class _Place:
    """Where the work is: a function, its scope, and the editor that collects changes."""

    function: Function
    scope: Scope
    editor: Editor
    helpers: set[str]

    def rename(self, call: Node, name: str) -> None:
        function = call.child_by_field_name("function")
        if function is not None:
            self.editor.note(self.function.unit, call, f"{text_of(function)} becomes {name}")
            self.editor.replace(self.function.unit, function, name)

    def is_float(self, node: Node) -> bool:
        return self.scope.kind(node) == "float"

    def wrap(self, node: Node, opening: str) -> None:
        """Makes ``opening(node)`` of an expression, reusing its own parentheses."""
        if node.type == "parenthesized_expression":
            self.editor.before(self.function.unit, node, opening)
        else:
            self.editor.before(self.function.unit, node, f"{opening}(")
            self.editor.after(self.function.unit, node, ")")


def _exp(place: _Place, node: Node) -> None:
    name = callee(node)
    given = arguments(node)
    if name in _EXP and len(given) == 1 and (name.endswith("f") or place.is_float(given[0])):
        place.rename(node, _EXP[name])


def _trig(place: _Place, node: Node) -> None:
    name, given = callee(node), arguments(node)
    if name in _TRIG and len(given) == 1 and (name.endswith("f") or place.is_float(given[0])):
        place.rename(node, _TRIG[name])


def _tanh(place: _Place, node: Node) -> None:
    name, given = callee(node), arguments(node)
    if len(given) == 1 and (name == "tanhf" or (name == "tanh" and place.is_float(given[0]))):
        place.rename(node, "astra_tanh")
        place.helpers.add(TANH)


def _square_root(place: _Place, node: Node) -> Node | None:
    """Returns the call if an expression is ``sqrtf(x)``, in parentheses or not."""
    node = bare(node)
    name, given = callee(node) if node.type == "call_expression" else "", []
    if name in ("sqrtf", "sqrt"):
        given = arguments(node)
    ok = len(given) == 1 and (name == "sqrtf" or place.is_float(given[0]))
    return node if ok else None


def _rsqrt(place: _Place, node: Node) -> None:
    sides = operands(node)
    if node.type == "call_expression":
        given = arguments(node)
        plain = text_of(node.child_by_field_name("function")) in ("rsqrt", "::rsqrt")
        if plain and len(given) == 1 and place.is_float(given[0]):
            place.rename(node, "rsqrtf")
        return
    if node.type != "binary_expression" or operator(node) != "/" or sides is None:
        return
    root = _square_root(place, sides[1])
    if root is None or place.scope.kind(sides[0]) not in ("float", "int"):
        return
    place.rename(root, "rsqrtf")
    unit = place.function.unit
    sign = node.child_by_field_name("operator")
    if is_number(sides[0], 1.0):
        start, end = sides[0].start_byte, sides[1].start_byte
        place.editor.cut(unit, start, end)
    elif sign is not None:
        place.editor.replace(unit, sign, "*")


def _is_division(place: _Place, node: Node) -> tuple[Node, Node] | None:
    """Returns both sides of a float division worth changing; halves, thirds are folded by nvcc."""
    sides = operands(node)
    if node.type != "binary_expression" or operator(node) != "/" or sides is None:
        return None
    left, right = sides
    if place.scope.kind(node) != "float" or literal_value(bare(right)) is not None:
        return None
    if _square_root(place, right) is not None:
        return None
    return None if _is_constant(node) else (left, right)


def _is_constant(node: Node) -> bool:
    """Tells whether an expression stands where the compiler evaluates it: ``constexpr``."""
    for outer in ancestors(node):
        if outer.type == "declaration":
            return any(text_of(c) in ("constexpr", "static") for c in outer.children)
        if outer.type in ("static_assert_declaration", "template_argument_list"):
            return True
    return False


def _rcp(place: _Place, node: Node) -> None:
    sides = _is_division(place, node)
    sign = node.child_by_field_name("operator")
    if sides is None or sign is None or not at_least_one(sides[1], place.scope):
        return
    place.editor.note(place.function.unit, node, "division becomes a product with rcp.approx")
    place.helpers.add(RECIPROCAL)
    place.editor.replace(place.function.unit, sign, "*")
    place.wrap(sides[1], "astra_reciprocal")


def _div(place: _Place, node: Node) -> None:
    sides = _is_division(place, node)
    sign = node.child_by_field_name("operator")
    if sides is None or sign is None:
        return
    name = "__fdividef" if is_count(sides[1], place.scope) else "astra_divide"
    unit = place.function.unit
    place.editor.note(unit, node, f"division becomes {name}")
    if name == "astra_divide":
        place.helpers.add(DIVIDE)
    place.editor.before(unit, node, f"{name}(")
    place.editor.cut(unit, sides[0].end_byte, sign.start_byte)
    place.editor.replace(unit, sign, ",")
    if sides[1].type == "parenthesized_expression":  # its closing parenthesis becomes the call's
        place.editor.replace(unit, sides[1].children[0], "")
    else:
        place.editor.after(unit, node, ")")


def _power(place: _Place, node: Node) -> None:
    name, given = callee(node), arguments(node)
    if name not in ("powf", "pow") or len(given) != 2 or not place.is_float(given[0]):
        return
    base = bare(given[0])
    if base.type == "identifier" and is_number(given[1], 2.0):
        if name == "pow" and place.scope.kind(given[1]) == "double":
            return
        square = f"({text_of(base)} * {text_of(base)})"
        place.editor.note(place.function.unit, node, f"{name}(.., 2) becomes a product")
        place.editor.replace(place.function.unit, node, square)


def _literal(place: _Place, node: Node) -> None:
    """A double literal that is the only reason for double arithmetic becomes a float literal."""
    text = text_of(node)
    parent = node.parent
    while parent is not None and parent.type in ("unary_expression", "parenthesized_expression"):
        parent = parent.parent
    if node.type != "number_literal" or literal_kind(text) != "double" or parent is None:
        return
    value = literal_value(node)
    if parent.type != "binary_expression" or value is None or not _fits_float(value):
        return
    others = [s for s in operands(parent) or () if not s.start_byte <= node.start_byte < s.end_byte]
    if len(others) != 1 or place.scope.kind(others[0]) not in ("float", "double"):
        return
    if _only_literals_are_double(place.scope, others[0]) and not _is_constant(node):
        place.editor.note(place.function.unit, node, f"{text} becomes a float literal")
        place.editor.after(place.function.unit, node, "f")


def _fits_float(value: float) -> bool:
    return value == 0 or 2.0**-126 <= abs(value) < 2.0**128


def _only_literals_are_double(scope: Scope, node: Node) -> bool:
    """Tells whether an expression would be float if its double literals were."""
    leaves = [n for n in find(node, "identifier", "number_literal", "call_expression")]
    doubles = [n for n in leaves if scope.kind(n) == "double" and n.type != "number_literal"]
    return not doubles and any(scope.kind(n) == "float" for n in leaves)


_RULES: dict[str, tuple[tuple[str, ...], Callable[[_Place, Node], None]]] = {
    "exp": (("call_expression",), _exp),
    "rcp": (("binary_expression",), _rcp),
    "div": (("binary_expression",), _div),
    "rsqrt": (("binary_expression", "call_expression"), _rsqrt),
    "power": (("call_expression",), _power),
    "literal": (("number_literal",), _literal),
    "tanh": (("call_expression",), _tanh),
    "trig": (("call_expression",), _trig),
}


class FastMath:
    """Replaces exact float functions and divisions by fast ones; points say which groups."""

    name = "fast_math"
    technique = "fast_math"
    sample = ParameterPoint.of(replace="exp+div")

    def parameters(self, program: Program) -> tuple[ParameterPoint, ...]:
        """Returns the groups of replacements that find a place, combined and alone."""
        present = [g for g in _ORDER if isinstance(self._apply(program, (g,)), Applied)]
        wanted = [tuple(g for g in groups if g in present) for groups in _COMBINED]
        wanted += [(group,) for group in present]
        wanted.append(tuple(group for group in _ALL if group in present))
        unique = dict.fromkeys(groups for groups in wanted if groups)
        return tuple(ParameterPoint.of(replace="+".join(groups)) for groups in unique)

    def apply(self, program: Program, point: ParameterPoint) -> Applied | Refused:
        """Replaces the groups that ``replace`` names, joined by ``+``."""
        groups = tuple(point.word("replace").split("+"))
        unknown = [group for group in groups if group not in _RULES]
        if unknown:
            return Refused(f"no such group of replacements: {unknown[0]!r}")
        if "div" in groups and "rcp" in groups:
            return Refused("div and rcp replace the same divisions; choose one")
        return self._apply(program, groups)

    def _apply(self, program: Program, groups: tuple[str, ...]) -> Applied | Refused:
        """Applies literals first: they decide whether the arithmetic around them is float."""
        rest = tuple(group for group in groups if group != "literal")
        first = _run(program, ("literal",)) if "literal" in groups else None
        if first is None or not rest:
            return first or _run(program, rest)
        if isinstance(first, Refused):
            return _run(program, rest)
        second = _run(program.with_sources(first.sources), rest)
        if isinstance(second, Refused):
            return first
        edits = sorted({*first.edits, *second.edits}, key=lambda change: (change.path, change.line))
        return Applied(second.sources, f"fast math: {', '.join(groups)}", tuple(edits))


def _run(program: Program, groups: tuple[str, ...]) -> Applied | Refused:
    reachable = reach(program)
    if isinstance(reachable, Refused):
        return reachable
    editor, blocked = Editor(), None
    for function in reachable.device:
        if function.name.startswith("astra_"):
            continue
        if broken(function) is not None:
            blocked = blocked or function
            continue
        helpers: set[str] = set()
        _rewrite(_Place(function, Scope(function, reachable), editor, helpers), groups)
        add_prelude(editor, function.unit, sorted(helpers))
    if not editor.edits:
        return _nothing(reachable, blocked)
    return editor.finish(program, f"fast math: {', '.join(groups)}", reachable.units)


def _rewrite(place: _Place, groups: tuple[str, ...]) -> None:
    for group in groups:
        types, rule = _RULES[group]
        for node in find(place.function.body, *types):
            rule(place, node)


def _nothing(reachable: Reachable, blocked: Function | None) -> Refused:
    if not reachable.device:
        return Refused("the entry reaches no device code")
    if blocked is not None:
        return Refused(f"{blocked.name} does not parse cleanly", broken(blocked))
    return Refused("no float arithmetic of this kind in device code")
