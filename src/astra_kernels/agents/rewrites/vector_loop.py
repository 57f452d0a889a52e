"""Writes the vector loop that runs in front of a loop over single elements.

The original loop stays as it is, except that it starts where the vector loop ended. It is the
path for pointers that are not aligned, and the tail for sizes that do not divide.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from astra_kernels.agents.rewrites.accesses import Access
from astra_kernels.agents.rewrites.edits import Edit, splice
from astra_kernels.agents.rewrites.loops import StridedLoop
from astra_kernels.agents.rewrites.reach import Function
from astra_kernels.agents.rewrites.syntax import Node, assignment_of, find, text_of


@dataclass(frozen=True, eq=False)
class Stream:
    """All accesses of a loop that share base pointer and offset, and the vector that holds them."""

    vector: str
    accesses: tuple[Access, ...]

    @property
    def address(self) -> str:
        """The address of the element with index 0."""
        return self.accesses[0].address

    @property
    def reads(self) -> bool:
        """Whether the vector must be loaded: an element is used before the loop has written it."""
        changes = [assignment_of(access.node) for access in self.accesses if access.writes]
        first = min((change.end_byte for change in changes if change is not None), default=None)
        early = [a for a in self.accesses if first is None or a.node.start_byte < first]
        return any(access.reads for access in early)

    @property
    def writes(self) -> bool:
        """Whether the vector must be stored."""
        return any(access.writes for access in self.accesses)


def streams(found: list[Access], loop: StridedLoop, taken: set[str]) -> tuple[Stream, ...]:
    """Groups the accesses that can move as vectors; others stay as they are.

    A pointer is left alone if the loop also uses it in any other way: under a condition, at another
    kind of index, or handed to a function, for then the order of its accesses could change.
    """
    groups: dict[tuple[str, str], list[Access]] = {}
    for access in found:
        groups.setdefault((access.base.name, access.rest), []).append(access)
    clean = {name for name, _ in groups if _only_in(found, name, loop.body)}
    chosen = []
    for (name, _), members in groups.items():
        if name not in clean or not all(member.always for member in members):
            continue
        vector = _fresh(f"{name}_vector", taken)
        chosen.append(Stream(vector, tuple(members)))
    return _without_mixed_writes(tuple(chosen), groups)


def _without_mixed_writes(
    chosen: tuple[Stream, ...], groups: dict[tuple[str, str], list[Access]]
) -> tuple[Stream, ...]:
    """Drops a written pointer whose other accesses stay single."""
    kept = []
    for stream in chosen:
        name = stream.accesses[0].base.name
        own = [key for key in groups if key[0] == name]
        together = [other for other in chosen if other.accesses[0].base.name == name]
        if len(own) == len(together) or not any(a.writes for key in own for a in groups[key]):
            kept.append(stream)
    return tuple(kept)


def _only_in(found: list[Access], name: str, body: Node) -> bool:
    mentions = [n for n in find(body, "identifier") if text_of(n) == name]
    spans = [(a.node.start_byte, a.node.end_byte) for a in found if a.base.name == name]
    return all(any(start <= n.start_byte < end for start, end in spans) for n in mentions)


def _fresh(name: str, taken: set[str]) -> str:
    candidate, number = name, 2
    while candidate in taken:
        candidate, number = f"{name}{number}", number + 1
    taken.add(candidate)
    return candidate


@dataclass(frozen=True)
class Names:
    """The new variables of one vector loop."""

    done: str
    lanes: str
    first: str
    flight: str
    at: str
    lane: str

    @staticmethod
    def fresh(index: str, taken: set[str]) -> Names:
        """Returns names built on the index that the function does not use."""
        parts = ("done", "lanes", "first", "flight", "at", "lane")
        return Names(*(_fresh(f"{index}_{part}", taken) for part in parts))


@dataclass(frozen=True, eq=False)
class VectorLoop:
    """One loop to widen: its streams, the bytes per access and the vectors in flight.

    ``whole`` says that the elements are vectors already: each stays one access.
    """

    function: Function
    loop: StridedLoop
    streams: tuple[Stream, ...]
    names: Names
    width: int
    unroll: int
    whole: bool

    @property
    def mapping(self) -> str:
        """What decides which thread has which element: equal texts, equal mappings."""
        loop = self.loop
        parts = [text_of(node) for node in (loop.start, loop.bound, loop.step)]
        parts += sorted({f"{s.address}:{s.accesses[0].base.type}" for s in self.streams})
        return "; ".join(parts)

    def text(self) -> str:
        """Returns the lines that go in front of the original loop."""
        names, loop = self.names, self.loop
        sizes = dict.fromkeys(f"sizeof(*{s.accesses[0].base.name})" for s in self.streams)
        pointers = dict.fromkeys(s.address for s in self.streams)
        lanes = f"AstraLanes<{', '.join([str(self.width), *sizes])}>::value"
        aligned = " &&\n    ".join(f"astra_is_aligned<{names.lanes}>({p})" for p in pointers)
        done = f"{_group(loop.bound)} / {names.lanes} * {names.lanes}"
        lines = [
            f"constexpr int {names.lanes} = {'1' if self.whole else lanes};",
            f"{loop.index_type} {names.done} = 0;  // elements before this one move as vectors",
            f"if ({aligned}) {{",
            f"  {names.done} = {text_of(loop.bound) if self.whole else done};",
            *(_indent(self._loop(), 2)),
            "}",
        ]
        return "\n".join([*lines, ""])

    def _loop(self) -> list[str]:
        names, loop = self.names, self.loop
        start = f"{loop.index_type} {names.first} = {_group(loop.start)} * {names.lanes}"
        step = f"{names.first} += {_group(loop.step)} * {names.lanes}"
        step += f" * {self.unroll}" if self.unroll > 1 else ""
        lines = self._in_flight() if self.unroll > 1 else self._single(names.first)
        return [
            f"for ({start}; {names.first} < {names.done}; {step}) {{",
            *_indent(lines, 2),
            "}",
        ]

    def _single(self, at: str) -> list[str]:
        """Returns one vector's loads, arithmetic and stores."""
        return [*self._loads(at), *self._lanes(at, ""), *self._stores(at, "")]

    def _in_flight(self) -> list[str]:
        """Returns the loads of several vectors, then their arithmetic and stores."""
        names, each = self.names, f"[{self.names.flight}]"
        head = f"for (int {names.flight} = 0; {names.flight} < {self.unroll}; ++{names.flight}) {{"
        step = f"{names.flight} * {_group(self.loop.step)} * {names.lanes}"
        at = f"  const {self.loop.index_type} {names.at} = {names.first} + {step};"
        declared = [
            f"decltype(astra_load<{names.lanes}>({s.address})) {s.vector}[{self.unroll}];"
            for s in self.streams
        ]
        loads = [
            f"  if ({names.at} < {names.done}) {s.vector}{each} = "
            f"astra_load<{names.lanes}>({s.address} + {names.at});"
            for s in self.streams
            if s.reads
        ]
        work = [*self._lanes(names.at, each), *self._stores(names.at, each)]
        return [
            *declared,
            *(["#pragma unroll", head, at, *loads, "}"] if loads else []),
            "#pragma unroll",
            head,
            at,
            f"  if ({names.at} < {names.done}) {{",
            *_indent(work, 4),
            "  }",
            "}",
        ]

    def _lanes(self, at: str, each: str) -> list[str]:
        names, loop = self.names, self.loop
        element = _element_body(self, each)
        uses_index = re.search(rf"\b{re.escape(loop.index)}\b", element) is not None
        index = f"  const {loop.index_type} {loop.index} = {at} + {names.lane};"
        return [
            "#pragma unroll",
            f"for (int {names.lane} = 0; {names.lane} < {names.lanes}; ++{names.lane}) {{",
            *([index] if uses_index else []),
            *_indent(element.split("\n"), 2),
            "}",
        ]

    def _loads(self, at: str) -> list[str]:
        lines = []
        for stream in self.streams:
            maker = "astra_load" if stream.reads else "astra_like"
            constant = "" if stream.writes else "const "
            where = f"{maker}<{self.names.lanes}>({stream.address} + {at})"
            lines.append(f"{constant}auto {stream.vector} = {where};")
        return lines

    def _stores(self, at: str, each: str) -> list[str]:
        written = [stream for stream in self.streams if stream.writes]
        return [f"astra_store({s.address} + {at}, {s.vector}{each});" for s in written]


def _indent(lines: list[str], by: int) -> list[str]:
    """Moves lines to the right, directives excepted."""
    return [line if line.startswith("#") or not line else " " * by + line for line in lines]


def _group(node: Node) -> str:
    """Returns an expression's text, in parentheses unless it is a single term."""
    simple = ("identifier", "number_literal", "field_expression", "parenthesized_expression")
    return text_of(node) if node.type in simple else f"({text_of(node)})"


def _element_body(plan: VectorLoop, each: str) -> str:
    """Returns the loop's body with its accesses replaced by lanes, without outer braces."""
    body = plan.loop.body
    text = plan.function.unit.text
    edits = {
        Edit(
            a.node.start_byte, a.node.end_byte, 0, f"{stream.vector}{each}.lane[{plan.names.lane}]"
        )
        for stream in plan.streams
        for a in stream.accesses
    }
    start, end = body.start_byte, body.end_byte
    if body.type == "compound_statement":
        start, end = start + 1, end - 1
    moved = {Edit(e.start - start, e.end - start, e.rank, e.text) for e in edits}
    changed = splice(text[start:end], moved) or ""
    return "\n".join(_dedent(changed))


def _dedent(text: str) -> list[str]:
    lines = [line.rstrip() for line in text.strip("\n").rstrip().split("\n")]
    rest = [line for line in lines[1:] if line.strip() and not line.startswith("#")]
    first = [lines[0]] if lines[0].startswith((" ", "\t")) else []
    margins = [len(line) - len(line.lstrip()) for line in first + rest]
    margin = min(margins, default=0)
    return [line[margin:] if not line[:margin].strip() else line.lstrip() for line in lines]
