"""Where the work of the PTX's loops is in the machine code, and how often each place does it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import astuple

from astra_kernels.devices.ptx_matching import Matching
from astra_kernels.devices.unrolled_loops import Copy, Part, Work, runs, turns_of
from astra_kernels.simulator.executed import Anchor, Line

Members = tuple[int, ...]
"""Numbers of the regions that are one copy together."""


def copies_of(work: Work, matching: Matching) -> dict[Members, Copy]:
    """Regions that do a loop's work: those of one loop together, others each by itself."""
    groups: dict[tuple[bool, int], list[int]] = {}
    for number, region in enumerate(matching.regions):
        if not region.slow and turns_of(region.held, work.anchors):
            loops = region.loop is not None and region.depth >= work.depth
            key = (True, region.loop or 0) if loops else (False, number)
            groups.setdefault(key, []).append(number)
    found: dict[Members, Copy] = {}
    for (loops, _), members in groups.items():
        held: Counter[Anchor] = Counter()
        for number in members:
            held.update(matching.regions[number].held)
        found[tuple(members)] = Copy(turns_of(held, work.anchors), loops)
    return found


def copy_runs(
    copies: Mapping[Members, Copy], work: Work, matching: Matching
) -> dict[Members, float]:
    """How often each copy runs.

    Where there are as many of each kind as in the PTX, ptxas kept the loops: each runs as often as the part
    of the PTX that it resembles most. Otherwise it unrolled them, and they share the work.
    """
    ours = sorted(map(astuple, copies.values()))
    if ours != sorted(astuple(part.copy) for part in work.parts):
        return dict(zip(copies, runs(list(copies.values()), work), strict=True))
    scores = [
        (_resemble(members, part, matching), members, index)
        for members, copy in copies.items()
        for index, part in enumerate(work.parts)
        if part.copy == copy
    ]
    found: dict[Members, float] = {}
    taken: set[int] = set()
    for _, members, index in sorted(scores, reverse=True):
        if members not in found and index not in taken:
            found[members] = work.parts[index].executions
            taken.add(index)
    return found


def _resemble(members: Members, part: Part, matching: Matching) -> float:
    """Of whole loops, or of straight code; where they are alike, their surroundings decide."""
    loop = matching.regions[members[0]].loop
    innermost = matching.ptx_flow.innermost
    ours: Counter[Line | Anchor] = Counter()
    theirs: Counter[Line | Anchor] = Counter()
    for number, region in enumerate(matching.regions):
        if number in members or (part.copy.loops and region.loop == loop):
            ours.update(region.lines)
            ours.update(region.held)
    for block, ran in enumerate(matching.ptx):
        around = part.copy.loops and innermost[block] == innermost[part.blocks[0]]
        if block in part.blocks or around:
            theirs.update(ran.lines)
            theirs.update({anchor: round(count) for anchor, count in ran.anchors.items()})
    alike = (ours & theirs).total() / max((ours | theirs).total(), 1)
    return alike + matching.alike(
        (b for n in members for b in matching.regions[n].blocks), part.blocks
    )
