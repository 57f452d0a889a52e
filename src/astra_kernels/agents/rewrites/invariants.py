"""What a loop leaves unchanged: expressions whose value is the same in every iteration."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cached_property

from astra_kernels.agents.rewrites.global_memory import (
    GlobalAccess,
    GlobalMemory,
    global_memory,
    reference_takers,
    source_macros,
)
from astra_kernels.agents.rewrites.scope import Scope
from astra_kernels.agents.rewrites.syntax import (
    Node,
    ancestors,
    arguments,
    bare,
    callee,
    find,
    inside,
    is_reference,
    operator,
    text_of,
    words,
)

LOOPS = ("for_statement", "while_statement", "do_statement")
PURE_CALLS = words(
    "sqrtf rsqrtf expf exp2f exp10f logf log2f log10f powf tanhf sinf cosf erff __expf __logf "
    "__fdividef __frcp_rn __fsqrt_rn sqrt rsqrt exp log pow tanh sin cos erf"
)
_SMALL_CALLS = words("fmaxf fminf fabsf fmaf max min abs fabs floorf ceilf")
_BUILTIN = words("threadIdx blockIdx blockDim gridDim")
_CAST = re.compile(r"static_cast\s*<[\w\s]+>|float|int|double|unsigned")
_BRANCHES = ("if_statement", "switch_statement", "conditional_expression", "lambda_expression")
_LEAVES = words("break_statement return_statement continue_statement goto_statement")


class Invariants:
    """The loops of one function, and what does not change in them."""

    def __init__(self, scope: Scope) -> None:
        self.scope = scope
        self._changed: dict[int, frozenset[str]] = {}

    @cached_property
    def memory(self) -> GlobalMemory:
        """What the function does with the memory behind its pointer parameters."""
        return global_memory(self.scope)

    @cached_property
    def _loose(self) -> frozenset[str]:
        """Variables that may change by another name: by address, by reference, in a lambda."""
        body, names = self.scope.function.body, set[str]()
        takers = reference_takers(self.scope.reachable) | source_macros(self.scope.reachable)
        for leaf in find(body, "identifier"):
            parent = leaf.parent
            address = parent is not None and parent.type == "pointer_expression"
            if (address and operator(parent) == "&") or is_reference(leaf):  # type: ignore[arg-type]
                names.add(text_of(leaf))
        for node in find(body, "call_expression", "gnu_asm_expression", "lambda_expression"):
            if node.type == "call_expression" and callee(node) not in takers:
                continue
            names |= {text_of(leaf) for leaf in find(node, "identifier")}
        return frozenset(names)

    def changed(self, loop: Node) -> frozenset[str]:
        """Returns the variables that a loop declares or assigns."""
        if loop.id not in self._changed:
            names = set[str]()
            for node in find(loop, "assignment_expression", "update_expression"):
                target = node.child_by_field_name("left") or node.child_by_field_name("argument")
                if target is None or bare(target).type not in ("identifier", "field_expression"):
                    continue  # an element: neither a number nor the pointer to it
                names.add(text_of(next(find(target, "identifier"), None)))
            for node in find(loop, "declaration", "for_range_loop"):
                for declarator in node.children_by_field_name("declarator"):
                    initialised = declarator.type == "init_declarator"
                    name = (
                        declarator.child_by_field_name("declarator") if initialised else declarator
                    )
                    names |= {text_of(leaf) for leaf in find(name or declarator, "identifier")}
            self._changed[loop.id] = frozenset(names)
        return self._changed[loop.id]

    def loops_around(self, node: Node) -> Iterator[Node]:
        """Yields the loops that repeat a node, the innermost first, up to the first branch."""
        child = node
        for outer in ancestors(node):
            if outer.type in _BRANCHES:
                condition = outer.child_by_field_name("condition")
                if condition is None or not inside(node, condition):
                    return
            if outer.type == "binary_expression" and operator(outer) in ("&&", "||"):
                return
            if outer.type in LOOPS and child != outer.child_by_field_name("initializer"):
                yield outer
            child = outer

    def is_fixed(self, node: Node, loop: Node) -> bool:
        """Tells whether an expression of numbers has the same value in all iterations."""
        changed = self.changed(loop) | self._loose
        return all(self._is_fixed_leaf(leaf, changed) for leaf in _parts(node))

    def _is_fixed_leaf(self, leaf: Node, changed: frozenset[str]) -> bool:
        text = text_of(leaf)
        if leaf.type == "identifier":
            parent = leaf.parent
            if text in _BUILTIN or (parent is not None and parent.type == "call_expression"):
                return True
            found = self.scope.declared.get(text)
            if found is None:
                return self.scope.outer_constant(text) is not None
            plain = len(found) == 1 and not {"volatile", "__shared__"} & found[0].qualifiers
            return plain and text not in changed and self.scope.kind(leaf) != "other"
        if leaf.type == "call_expression":
            function = text_of(leaf.child_by_field_name("function"))
            pure = callee(leaf) in PURE_CALLS | _SMALL_CALLS or _CAST.fullmatch(function)
            return bool(pure) and bool(arguments(leaf))
        if leaf.type == "field_expression":
            return text_of(leaf.child_by_field_name("argument")) in _BUILTIN
        return False

    def depends_on_run_time(self, node: Node) -> bool:
        """Tells whether a value is not known to the compiler already."""
        for leaf in find(node, "identifier"):
            found = self.scope.get(text_of(leaf))
            if text_of(leaf) in _BUILTIN:
                return True
            known = found is None or "constexpr" in found.qualifiers
            if not known and found is not None and not _is_template_argument(found.node):
                return True
        return False

    def is_fixed_load(self, access: GlobalAccess, loop: Node) -> bool:
        """Tells whether a load gets the same element of unchanging memory in all iterations."""
        if self.memory.changes(access.root) is not None:
            return False
        changed = self.changed(loop) | self._loose
        for leaf in find(access.node, "identifier"):
            found = self.scope.get(text_of(leaf))
            pointer = found is not None and found.pointers == 1 and not found.array
            if pointer and text_of(leaf) not in changed:
                continue
            if not self._is_fixed_leaf(leaf, changed):
                return False
        inner = [c for c in find(access.node, "call_expression") if c != access.node]
        odd = any(find(access.node, "update_expression", "assignment_expression"))
        return not odd and all(self._is_fixed_leaf(c, changed) for c in inner)

    def runs_first(self, node: Node, loop: Node) -> bool:
        """Tells whether the first iteration is sure to reach a node: nothing may leave before."""
        body = loop.child_by_field_name("body")
        if body is None or not inside(node, body):
            return False
        return all(leave.start_byte > node.start_byte for leave in find(body, *_LEAVES))


def _parts(node: Node) -> Iterator[Node]:
    """Yields what decides an expression's value, and anything that is no plain arithmetic."""
    node = bare(node)
    if node.type in ("number_literal", "comment"):
        return
    if node.type in ("identifier", "field_expression"):
        yield node
    elif node.type == "call_expression":
        yield node
        for given in arguments(node):
            yield from _parts(given)
    elif node.type == "cast_expression":
        value = node.child_by_field_name("value")
        if value is not None:
            yield from _parts(value)
    elif node.type in ("binary_expression", "unary_expression"):
        for child in node.named_children:
            yield from _parts(child)
    else:
        yield node


def _is_template_argument(node: Node) -> bool:
    return any(outer.type == "template_parameter_list" for outer in ancestors(node))


def is_innocent(node: Node) -> bool:
    """Tells whether evaluating an expression once more changes nothing."""
    odd = ("call_expression", "assignment_expression", "update_expression", "pointer_expression")
    return not any(find(node, *odd, "subscript_expression"))
