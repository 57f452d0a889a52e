"""`.loc` directives: which source line an instruction belongs to."""

from __future__ import annotations

import re

from astra_kernels.simulator.records import SourceLine

_LOC = re.compile(r"(\d+)\s+(\d+)\s+(\d+)(?:.*inlined_at\s+(\d+)\s+(\d+)\s+(\d+))?")
_Place = tuple[int, int, int]


class LineTable:
    """Follows `.loc` directives through a function.

    Inlined code (`__half2float`, a vector type's load) is attributed to the innermost line that lies
    in the same file as the kernel, since that is the line which its author can change.
    """

    def __init__(self, files: dict[int, str]) -> None:
        self._files = files
        self._home: int | None = None
        self._inlined_at: dict[_Place, _Place] = {}
        self.current: SourceLine | None = None
        self.innermost: SourceLine | None = None

    def move_to(self, directive: str) -> None:
        """Take in the text after `.loc`."""
        found = _LOC.match(directive)
        if not found:
            return
        numbers = [int(group) for group in found.groups() if group is not None]
        place: _Place = (numbers[0], numbers[1], numbers[2])
        if len(numbers) == 6:
            self._inlined_at[place] = (numbers[3], numbers[4], numbers[5])
        else:
            self._inlined_at.pop(place, None)
        if self._home is None:
            self._home = place[0]
        self.innermost = SourceLine(self._files.get(place[0], "?"), place[1])
        seen = {place}
        while place[0] != self._home and place in self._inlined_at:
            place = self._inlined_at[place]
            if place in seen:
                break
            seen.add(place)
        self.current = SourceLine(self._files.get(place[0], "?"), place[1])
