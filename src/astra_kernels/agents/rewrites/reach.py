"""The functions that a program's entry can reach, found by the names they mention.

Templates, function pointers, functors and macros all defeat a real call graph without a compiler.
Mentioned names over-approximate it, which is the safe side: a function that is edited though it is
never called costs nothing, and one that shares a kernel's name is seen.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache

from astra_kernels.agents.rewrites.exports import exported_function
from astra_kernels.agents.rewrites.program import Program, Refused
from astra_kernels.agents.rewrites.syntax import Node, Unit, line_of, parse, text_of, walk, words

_CACHED_LOAD = re.compile(r"\s*__ld(?:g|cg|ca|cs|lu|cv)\(\(?\w+\)?\)\s*")
_NAME = re.compile(r"[A-Za-z_]\w*")
_SPACES = words(
    "namespace_definition template_declaration linkage_specification declaration_list "
    "preproc_if preproc_ifdef preproc_else preproc_elif class_specifier struct_specifier "
    "field_declaration_list translation_unit declaration field_declaration"
)
_LEAVES = ("function_definition", "preproc_def", "preproc_function_def", "init_declarator")


@dataclass(frozen=True, eq=False)
class Function:
    """A function definition: where it is, its name, and what runs it."""

    unit: Unit
    node: Node
    name: str

    @property
    def body(self) -> Node:
        """The compound statement."""
        body = self.node.child_by_field_name("body")
        return self.node if body is None else body

    @property
    def head(self) -> str:
        """Everything in front of the body: attributes, type, name, parameters."""
        return self.unit.text[self.node.start_byte : self.body.start_byte].decode()

    @property
    def is_kernel(self) -> bool:
        """Whether the host launches it."""
        return "__global__" in self.head

    @property
    def is_device(self) -> bool:
        """Whether it runs on the device."""
        return self.is_kernel or "__device__" in self.head

    @property
    def template(self) -> Node | None:
        """The template declaration around it, if it is a template."""
        parent = self.node.parent
        return parent if parent is not None and parent.type == "template_declaration" else None

    @property
    def result(self) -> str:
        """The type it returns, or an empty string for pointers and references."""
        declarator = self.node.child_by_field_name("declarator")
        plain = declarator is not None and declarator.type == "function_declarator"
        return text_of(self.node.child_by_field_name("type")) if plain else ""

    @property
    def line(self) -> int:
        """The line its definition starts on."""
        return line_of(self.node)


@dataclass(frozen=True, eq=False)
class Constant:
    """A macro without arguments, or an initialised variable outside any function."""

    unit: Unit
    node: Node
    value: Node

    @property
    def is_macro(self) -> bool:
        """Whether the preprocessor replaces it, in which case ``value`` is opaque text."""
        return self.node.type == "preproc_def"


@dataclass(frozen=True, eq=False)
class Reachable:
    """What the entry reaches, and all files.

    Attributes:
        entry: The entry itself.
        functions: All functions in reach, in order of file and line.
        units: All files, by path.
        constants: Macros and variables outside functions, by name.
        others: The functions that the entry does not reach.
        cached_loads: The macros that stand for a cached load such as ``__ldg``.
        classes: The types that the sources define.
    """

    entry: Function
    functions: tuple[Function, ...]
    units: tuple[Unit, ...]
    constants: Mapping[str, tuple[Constant, ...]]
    others: tuple[Function, ...]
    cached_loads: frozenset[str]
    classes: frozenset[str]

    @property
    def kernels(self) -> tuple[Function, ...]:
        """The reachable kernels, in order of file and line."""
        return tuple(f for f in self.functions if f.is_kernel)

    @cached_property
    def results(self) -> dict[str, str]:
        """What the device functions return, by name, where all of a name agree."""
        types: dict[str, set[str]] = {}
        for function in self.device:
            types.setdefault(function.name, set()).add(function.result)
        return {name: found.pop() for name, found in types.items() if len(found) == 1}

    @property
    def device(self) -> tuple[Function, ...]:
        """The reachable device functions, kernels included."""
        return tuple(f for f in self.functions if f.is_device)

    @property
    def host(self) -> tuple[Function, ...]:
        """The reachable host functions, the entry included."""
        return tuple(f for f in self.functions if not f.is_device)


@dataclass(frozen=True, eq=False)
class _Index:
    """Definitions of one file by name: functions, class bodies and macro bodies."""

    functions: dict[str, list[Function]]
    texts: dict[str, str]
    constants: dict[str, list[Constant]]
    cached_loads: set[str]
    classes: set[str]


@lru_cache(maxsize=256)
def _index(path: str, source: str) -> _Index:
    unit = parse(path, source)
    index = _Index({}, {}, {}, set(), set())
    for node in _definitions(unit.root):
        name = text_of(node.child_by_field_name("name"))
        value = node.child_by_field_name("value")
        if node.type == "function_definition":
            name = _function_name(node)
            index.functions.setdefault(name, []).append(Function(unit, node, name))
            continue
        if node.type == "init_declarator":
            name = text_of(node.child_by_field_name("declarator"))
        if value is not None and node.type in ("init_declarator", "preproc_def"):
            index.constants.setdefault(name, []).append(Constant(unit, node, value))
        if node.type in ("class_specifier", "struct_specifier"):
            index.classes.add(name)
        if node.type == "preproc_function_def" and _CACHED_LOAD.fullmatch(text_of(value)):
            index.cached_loads.add(name)
        text = text_of(value if node.type.startswith("preproc") else node)
        index.texts[name] = f"{index.texts.get(name, '')} {text}"
    return index


def _definitions(node: Node) -> Iterator[Node]:
    for child in node.children:
        if child.type in _LEAVES:
            yield child
        elif child.type in ("class_specifier", "struct_specifier"):
            yield child
            yield from _definitions(child)
        elif child.type in _SPACES:
            yield from _definitions(child)


def _function_name(node: Node) -> str:
    declarator = node.child_by_field_name("declarator")
    while declarator is not None and declarator.type != "function_declarator":
        declarator = declarator.child_by_field_name("declarator") or next(
            (c for c in declarator.named_children if c.type.endswith("declarator")), None
        )
    name = None if declarator is None else declarator.child_by_field_name("declarator")
    match = _NAME.search(text_of(name).rsplit("::", 1)[-1])
    return match.group() if match else ""


def reach(program: Program) -> Reachable | Refused:
    """Returns what the program's entry reaches, or why that cannot be told."""
    return _reach(tuple(sorted(program.sources.items())), program.entry)


@lru_cache(maxsize=8)
def _reach(sources: tuple[tuple[str, str], ...], entry: str) -> Reachable | Refused:
    path, _, exported = entry.partition("::")
    name = exported_function(dict(sources), exported)
    indices = {where: _index(where, text) for where, text in sources}
    if path not in indices:
        return Refused(f"the entry's file {path!r} is not among the sources")
    entries = indices[path].functions.get(name, [])
    if not entries:  # a file that only exports it
        entries = [f for index in indices.values() for f in index.functions.get(name, [])]
    if not entries:
        return Refused(f"{path} defines no function {name!r} that can be parsed")
    found: dict[int, Function] = {}
    seen = {name}
    pending = list(entries)
    while pending:
        function = pending.pop()
        if id(function) in found:
            continue
        found[id(function)] = function
        pending += _mentioned(function, indices, seen)
    units = tuple(parse(where, text) for where, text in sources)
    constants: dict[str, tuple[Constant, ...]] = {}
    for index in indices.values():
        for key, values in index.constants.items():
            constants[key] = (*constants.get(key, ()), *values)
    loads = frozenset(load for index in indices.values() for load in index.cached_loads)
    classes = frozenset(name for index in indices.values() for name in index.classes)
    every = (f for i in indices.values() for same in i.functions.values() for f in same)
    others = tuple(f for f in every if id(f) not in found)
    ordered = sorted(found.values(), key=lambda f: (f.unit.path, f.node.start_byte))
    return Reachable(entries[0], tuple(ordered), units, constants, others, loads, classes)


def _mentioned(function: Function, indices: dict[str, _Index], seen: set[str]) -> list[Function]:
    found: list[Function] = []
    texts = [text_of(function.template or function.node)]
    while texts:
        for name in _NAME.findall(texts.pop()):
            if name in seen:
                continue
            seen.add(name)
            for index in indices.values():
                found += index.functions.get(name, [])
                if name in index.texts:
                    texts.append(index.texts[name])
    return found


def broken(function: Function) -> int | None:
    """Returns the line of the first place in a function that did not parse, or None."""
    if not function.node.has_error:
        return None
    for node in walk(function.node):
        if node.type == "ERROR" or node.is_missing:
            return line_of(node)
    return function.line
