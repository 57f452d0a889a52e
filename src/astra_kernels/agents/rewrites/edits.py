"""Text edits that may nest: insertions around a node while its inside is edited as well."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from astra_kernels.agents.rewrites.normalise import same_program
from astra_kernels.agents.rewrites.program import Applied, Change, Program, Refused
from astra_kernels.agents.rewrites.syntax import Node, Unit, depth_of, line_of


@dataclass(frozen=True, order=True)
class Edit:
    """Replaces bytes ``start`` to ``end``; at one place, lower ``rank`` comes first."""

    start: int
    end: int
    rank: int
    text: str


@dataclass
class Editor:
    """Collects the edits of one rewrite over all files and says what they were."""

    edits: dict[str, set[Edit]] = field(default_factory=dict)
    changes: list[Change] = field(default_factory=list)

    def note(self, unit: Unit, node: Node, what: str) -> None:
        """Records, for people, what happens at ``node``."""
        self.changes.append(Change(unit.path, line_of(node), what))

    def replace(self, unit: Unit, node: Node, text: str) -> None:
        """Replaces a node's text."""
        self._add(unit, Edit(node.start_byte, node.end_byte, 0, text))

    def before(self, unit: Unit, node: Node, text: str) -> None:
        """Inserts text in front of a node, outside whatever is inserted for its descendants."""
        self._add(unit, Edit(node.start_byte, node.start_byte, depth_of(node), text))

    def after(self, unit: Unit, node: Node, text: str) -> None:
        """Inserts text behind a node, outside whatever is inserted for its descendants."""
        self._add(unit, Edit(node.end_byte, node.end_byte, -depth_of(node), text))

    def insert(self, unit: Unit, offset: int, text: str) -> None:
        """Inserts text at a byte offset, ahead of everything else there."""
        self._add(unit, Edit(offset, offset, -(1 << 20), text))

    def cut(self, unit: Unit, start: int, end: int) -> None:
        """Removes a range of bytes."""
        self._add(unit, Edit(start, end, 0, ""))

    def _add(self, unit: Unit, edit: Edit) -> None:
        self.edits.setdefault(unit.path, set()).add(edit)

    def finish(self, program: Program, summary: str, units: Iterable[Unit]) -> Applied | Refused:
        """Returns the edited program, or a refusal where nothing would change."""
        by_path = {unit.path: unit for unit in units}
        edited: dict[str, str] = {}
        for path, edits in self.edits.items():
            text = splice(by_path[path].text, edits)
            if text is None:
                return Refused(f"the edits in {path} overlap")
            edited[path] = text
        if same_program({path: program.sources[path] for path in edited}, edited):
            return Refused("nothing to change")
        sources = {**program.sources, **edited}
        changes = sorted(set(self.changes), key=lambda change: (change.path, change.line))
        return Applied(sources, summary, tuple(changes))


def splice(text: bytes, edits: Iterable[Edit]) -> str | None:
    """Returns the text after all edits, or None where two replacements overlap."""
    pieces: list[bytes] = []
    position = 0
    for edit in sorted(edits, key=lambda e: (e.start, e.end > e.start, e.rank, e.text)):
        if edit.start < position:
            return None
        pieces += [text[position : edit.start], edit.text.encode()]
        position = edit.end
    pieces.append(text[position:])
    return b"".join(pieces).decode()
