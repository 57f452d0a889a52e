"""How often warps come to where their lanes wait for one another.

A BSSY names the place behind the BSYNC at which lanes that part come together again. Each part of a warp
runs that BSYNC by itself: once for the warp, and once more for every time that it parted in between.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from astra_kernels.devices.machine_code import MachineBlock
from astra_kernels.simulator.control_flow import ControlFlow


def arrivals(
    machine: Sequence[MachineBlock],
    flow: ControlFlow,
    times: Sequence[float],
    splits: Mapping[int, float],
) -> dict[int, float]:
    """How often parts of warps run each block that is a BSYNC and nothing else.

    Where several wait for the same lanes, it is not known which of them parts come to, and none is given.

    Args:
        machine: the blocks.
        flow: of them.
        times: how often warps ran each.
        splits: how often the lanes of a warp parted at the end of each.
    """
    at = {label: index for index, block in enumerate(machine) for label in block.labels}
    scopes = [
        (_scope(flow, start, at[label]), at[label])
        for start in sorted(flow.reachable)
        for label in machine[start].joins
        if label in at
    ]
    found: dict[int, float] = {}
    for scope, behind in scopes:
        ends = [b for b in scope if behind in flow.successors[b] and "BSYNC" in machine[b].opcodes]
        if len(ends) != 1 or machine[ends[0]].opcodes != ["BSYNC"]:
            continue
        parted = sum(n for b, n in splits.items() if scope is _innermost(b, scopes))
        before = sum(times[b] for b in flow.predecessors[ends[0]] if b in flow.reachable)
        found[ends[0]] = max(times[ends[0]], min(times[ends[0]] + parted, before))
    return found


def _scope(flow: ControlFlow, start: int, behind: int) -> frozenset[int]:
    """Blocks from one on, up to another."""
    seen, waiting = {start}, [start]
    while waiting:
        for other in flow.successors[waiting.pop()]:
            if other not in seen and other != behind and other < len(flow.successors):
                seen.add(other)
                waiting.append(other)
    return frozenset(seen)


def _innermost(block: int, scopes: Sequence[tuple[frozenset[int], int]]) -> frozenset[int] | None:
    return min((s for s, _ in scopes if block in s), key=len, default=None)
