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
from astra_kernels.agents.rewrites.syntax import Node, bare, find, text_of


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
        """Whether the vector must be loaded."""
        return self.accesses[0].reads

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
    vector: str
    first: str
    lane: str

    @staticmethod
    def fresh(index: str, taken: set[str]) -> Names:
        """Returns names built on the index that the function does not use."""
        words = ("done", "lanes", "vector", "first", "lane")
        return Names(*(_fresh(f"{index}_{word}", taken) for word in words))


@dataclass(frozen=True, eq=False)
class VectorLoop:
    """One loop to widen: its streams, the bytes per access and the unrolling."""

    function: Function
    loop: StridedLoop
    streams: tuple[Stream, ...]
    names: Names
    width: int
    unroll: int

    def text(self) -> str:
        """Returns the lines that go in front of the original loop."""
        names, loop = self.names, self.loop
        sizes = dict.fromkeys(f"sizeof(*{s.accesses[0].base.name})" for s in self.streams)
        pointers = dict.fromkeys(s.address for s in self.streams)
        lanes = f"AstraLanes<{', '.join([str(self.width), *sizes])}>::value"
        aligned = " &&\n    ".join(f"astra_is_aligned<{names.lanes}>({p})" for p in pointers)
        bound = text_of(loop.bound)
        if bare(loop.bound).type not in ("identifier", "number_literal", "field_expression"):
            bound = f"({bound})"
        lines = [
            f"constexpr int {names.lanes} = {lanes};",
            f"{loop.index_type} {names.done} = 0;  // elements before this one move as vectors",
            f"if ({aligned}) {{",
            *self._loop(bound),
            f"  {names.done} = {bound} / {names.lanes} * {names.lanes};",
            "}",
        ]
        return "\n".join([*lines, ""])

    def _loop(self, bound: str) -> list[str]:
        names, loop = self.names, self.loop
        start = f"{loop.index_type} {names.vector} = {text_of(loop.start)}"
        step = f"{names.vector} += {text_of(loop.step)}"
        head = [f"#pragma unroll {self.unroll}"] if self.unroll > 1 else []
        element = _element_body(self)
        uses_index = re.search(rf"\b{re.escape(loop.index)}\b", element) is not None
        index = f"      const {loop.index_type} {loop.index} = {names.first} + {names.lane};"
        return [
            *head,
            f"  for ({start}; {names.vector} < {bound} / {names.lanes}; {step}) {{",
            f"    const {loop.index_type} {names.first} = {names.vector} * {names.lanes};",
            *(f"    {line}" for line in self._loads()),
            "#pragma unroll",
            f"    for (int {names.lane} = 0; {names.lane} < {names.lanes}; ++{names.lane}) {{",
            *([index] if uses_index else []),
            *(f"      {line}" for line in element.split("\n")),
            "    }",
            *(f"    {line}" for line in self._stores()),
            "  }",
        ]

    def _loads(self) -> list[str]:
        lines = []
        for stream in self.streams:
            where = f"{stream.address} + {self.names.first}"
            maker = "astra_load" if stream.reads else "astra_like"
            constant = "" if stream.writes else "const "
            lanes = self.names.lanes
            lines.append(f"{constant}auto {stream.vector} = {maker}<{lanes}>({where});")
        return lines

    def _stores(self) -> list[str]:
        return [
            f"astra_store({stream.address} + {self.names.first}, {stream.vector});"
            for stream in self.streams
            if stream.writes
        ]


def _element_body(plan: VectorLoop) -> str:
    """Returns the loop's body with its accesses replaced by lanes, without outer braces."""
    body = plan.loop.body
    text = plan.function.unit.text
    edits = {
        Edit(a.node.start_byte, a.node.end_byte, 0, f"{stream.vector}.lane[{plan.names.lane}]")
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
