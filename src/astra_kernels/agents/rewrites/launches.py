"""Kernel launches in host code, and the expressions that give their grid and block."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

from astra_kernels.agents.rewrites.reach import Function, Reachable
from astra_kernels.agents.rewrites.scope import Scope
from astra_kernels.agents.rewrites.syntax import (
    Node,
    arguments,
    bare,
    callee,
    find,
    operands,
    text_of,
)


@dataclass(frozen=True, eq=False)
class Launch:
    """One launch of a kernel.

    Attributes:
        host: The function that launches.
        scope: Its declarations.
        kernel: The kernel's name.
        call: The launch expression.
        grid: The grid's expression, where the launch gives it.
        block: The block's expression.
        shared: The dynamic shared memory's expression, if given.
    """

    host: Function
    scope: Scope
    kernel: str
    call: Node
    grid: Node
    block: Node
    shared: Node | None


@dataclass(frozen=True)
class OpaqueLaunch:
    """A launch whose geometry cannot be read, and where it is."""

    reason: str
    line: int


@lru_cache(maxsize=8)
def launches(reachable: Reachable) -> tuple[Launch | OpaqueLaunch, ...]:
    """Returns all launches of reachable kernels in reachable host functions."""
    return tuple(_launches(reachable))


def _launches(reachable: Reachable) -> Iterator[Launch | OpaqueLaunch]:
    names = {kernel.name for kernel in reachable.kernels}
    for host in reachable.host:
        text = text_of(host.body)
        if "<<<" not in text and "cudaLaunch" not in text:
            continue
        scope = Scope(host, reachable)
        for call in find(host.body, "call_expression"):
            found = _launch(call, host, scope, names)
            if found is not None:
                yield found


def _launch(
    call: Node, host: Function, scope: Scope, names: set[str]
) -> Launch | OpaqueLaunch | None:
    line = int(call.start_point.row) + 1
    syntax = next((c for c in call.children if c.type == "kernel_call_syntax"), None)
    if syntax is not None:
        given = [c for c in syntax.named_children if c.type != "comment"]
        kernel = _kernel(call.child_by_field_name("function"), scope, names)
        if kernel is None or len(given) < 2:
            return OpaqueLaunch("a launch does not name its kernel", line)
        shared = given[2] if len(given) > 2 else None
        return Launch(host, scope, kernel, call, given[0], given[1], shared)
    given, name = arguments(call), callee(call)
    if name == "cudaLaunchKernel" and len(given) >= 3:
        kernel = _kernel(given[0], scope, names)
        shared = given[4] if len(given) > 4 else None
        if kernel is not None:
            return Launch(host, scope, kernel, call, given[1], given[2], shared)
    if name in ("cudaLaunchKernelEx", "cudaLaunchKernelExC") and len(given) >= 2:
        return _configured(call, host, scope, names)
    return None


def _configured(
    call: Node, host: Function, scope: Scope, names: set[str]
) -> Launch | OpaqueLaunch | None:
    line = int(call.start_point.row) + 1
    given = arguments(call)
    kernel = _kernel(given[1], scope, names)
    config = text_of(bare(given[0])).lstrip("& ")
    fields: dict[str, list[Node]] = {}
    for node in find(host.body, "assignment_expression"):
        sides = operands(node)
        if sides is not None and text_of(sides[0]).startswith(f"{config}."):
            fields.setdefault(text_of(sides[0])[len(config) + 1 :], []).append(sides[1])
    grid, block = fields.get("gridDim", []), fields.get("blockDim", [])
    if kernel is None or len(grid) != 1 or len(block) != 1:
        return OpaqueLaunch("the launch configuration is not assigned once, by name", line)
    shared = fields.get("dynamicSmemBytes", [None])
    return Launch(host, scope, kernel, call, grid[0], block[0], shared[0])


def _kernel(node: Node | None, scope: Scope, names: set[str]) -> str | None:
    """Returns the kernel that an expression names, itself or through a variable."""
    for leaf in find(node, "identifier", "type_identifier") if node is not None else ():
        name = text_of(leaf)
        if name in names:
            return name
        found = scope.get(name)
        if found is not None and found.value is not None and found.value != node:
            inner = _kernel(found.value, scope, names)
            if inner is not None:
                return inner
    return None


def components(node: Node, scope: Scope) -> list[Node] | None:
    """Returns the parts of a ``dim3`` expression, or None where they cannot be read.

    A number or an integer variable is its own single part.
    """
    node = bare(node)
    if node.type == "call_expression" and callee(node) == "dim3":
        return arguments(node)
    if node.type in ("compound_literal_expression", "initializer_list"):
        value = node.child_by_field_name("value") or node
        return list(value.named_children)
    if node.type != "identifier":
        return [node]
    found = scope.get(text_of(node))
    if found is None or found.type != "dim3":
        return [node]
    if (
        found.value is None
        or scope.assigned.get(found.name)
        or _has_member_writes(found.name, scope)
    ):
        return None
    if found.value.type in ("argument_list", "initializer_list"):
        return list(found.value.named_children)
    if found.value.type == "parameter_list":  # ``dim3 grid(n)`` reads as a prototype
        return [_only_name(child) for child in found.value.named_children]
    return components(found.value, scope)


def _only_name(node: Node) -> Node:
    """Returns the name inside what was read as an unnamed parameter's type."""
    named = node.named_children
    return named[0] if node.type == "parameter_declaration" and len(named) == 1 else node


def _has_member_writes(name: str, scope: Scope) -> bool:
    for node in find(scope.function.body, "assignment_expression"):
        target = node.child_by_field_name("left")
        is_member = target is not None and target.type == "field_expression"
        if is_member and target is not None:
            owner = target.child_by_field_name("argument")
            if text_of(owner) == name:
                return True
    return False


def template_arguments(launch: Launch, kernel: Function) -> list[tuple[str, Node]]:
    """Returns the template arguments that a launch spells out, with their parameters' names."""
    template = kernel.template
    listed = template.child_by_field_name("parameters") if template is not None else None
    names = []
    for parameter in listed.named_children if listed is not None else ():
        leaves = list(find(parameter, "identifier", "type_identifier"))
        names.append(text_of(leaves[-1]) if leaves else "")
    function = launch.call.child_by_field_name("function")
    lists = list(find(function, "template_argument_list")) if function is not None else []
    given = [a for a in lists[0].named_children if a.type != "comment"] if lists else []
    return list(zip(names, given, strict=False))
