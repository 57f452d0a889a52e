"""How often each class of machine instruction ran, from the code itself and a simulated launch's counts.

The simulator runs PTX; ptxas makes other instructions of it. Here the machine code's regions (blocks that
every warp runs equally often, `simulator/control_flow.py`) take their counts from the PTX. Nothing is
fitted to a profiler. In order of how far each is to be trusted:

- the first region runs once for every warp; a slow path of a division or a root never;
- the copies of an unrolled loop share its turns (`unrolled_loops.py`);
- loads, stores, exchanges, barriers and plain float arithmetic run as often as those of the same source
  line did in the PTX, in all regions together;
- any other region takes the count of the PTX block that most of its source lines are in, of those that
  the flow of control allows (`flow_bounds.py`).
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence

from astra_kernels.devices.flow_bounds import FlowBounds
from astra_kernels.devices.loop_copies import copies_of, copy_runs
from astra_kernels.devices.machine_code import MachineBlock
from astra_kernels.devices.ptx_matching import Matching
from astra_kernels.devices.reconvergence import arrivals
from astra_kernels.devices.unrolled_loops import loop_works
from astra_kernels.languages.cuda.sass import instruction_class
from astra_kernels.simulator.control_flow import ControlFlow
from astra_kernels.simulator.executed import ARITHMETIC, Anchor, ExecutedBlock


def executed_classes(
    machine: Sequence[MachineBlock], ptx: Sequence[ExecutedBlock]
) -> dict[str, float]:
    """Warp instructions that ran, by the class of `sass.instruction_class`."""
    total: dict[str, float] = {}
    for block, times in zip(machine, block_executions(machine, ptx), strict=True):
        for opcode in block.opcodes:
            name = instruction_class(opcode)
            total[name] = total.get(name, 0.0) + times
    return total


def block_executions(machine: Sequence[MachineBlock], ptx: Sequence[ExecutedBlock]) -> list[float]:
    """How often warps ran each block of the machine code; what nothing leads to never ran."""
    flow = ControlFlow([block.successors for block in machine])
    matching = Matching(machine, flow, ptx)
    times = [0.0] * len(machine)
    for blocks, count in zip(flow.regions, _region_counts(matching, flow), strict=True):
        for block in blocks:
            times[block] = count
    for block, count in arrivals(machine, flow, times, matching.splits()).items():
        times[block] = count
    return times


def _region_counts(matching: Matching, flow: ControlFlow) -> list[float]:
    """Found one kind after the other."""
    relations = FlowBounds(flow)
    known = {0: float(matching.ptx[0].executions)}
    known |= {n: 0.0 for n, region in enumerate(matching.regions) if region.slow}
    pace = _unroll(matching, relations, known)
    votes = [
        matching.voted(n) * pace.get(region.loop, 1.0) for n, region in enumerate(matching.regions)
    ]
    _balance(matching, votes, known)
    bounds = relations.bounds(known)
    for number, vote in enumerate(votes):
        if number not in known:
            low, high = bounds[number]
            known[number] = max(low, min(vote, high))
            bounds = relations.bounds(known)
    return [known[number] for number in range(len(votes))]


def _unroll(
    matching: Matching, relations: FlowBounds, known: dict[int, float]
) -> dict[int | None, float]:
    """Adds the counts of the loops' bodies; gives how much less often each loop turns than in the PTX."""
    pace: dict[int | None, float] = {}
    for work in loop_works(matching.ptx, matching.ptx_flow):
        copies = copies_of(work, matching)
        for members, times in copy_runs(copies, work, matching).items():
            known |= {n: times for n in members if n not in known}
            if work.turns and copies[members].loops:
                pace[matching.regions[members[0]].loop] = times / work.turns
        if len(copies) > len(work.parts):
            # Where control comes to before it is spread over the copies, it comes once an entry.
            above = relations.above([n for members in copies for n in members])
            if above is not None and not matching.regions[above].anchors:
                known.setdefault(above, work.entries)
    return pace


def _balance(matching: Matching, votes: Sequence[float], known: dict[int, float]) -> None:
    """Adds the counts of other regions with anchors: votes, scaled until anchors run as often as in the PTX."""
    regions = matching.regions
    chosen = [n for n, region in enumerate(regions) if region.anchors and n not in known]
    found: dict[Anchor, float] = {}
    for number, often in (known | {n: votes[n] for n in chosen}).items():
        for anchor, count in regions[number].held.items():
            found[anchor] = found.get(anchor, 0.0) + often * count
    for number in chosen:
        known[number] = votes[number] * _ratio(matching, regions[number].anchors, found)


def _ratio(
    matching: Matching, anchors: Mapping[Anchor, int], found: Mapping[Anchor, float]
) -> float:
    """How much more often anchors should run; accesses and exchanges are surer than arithmetic."""
    expected = {a: matching.expected(a) for a in anchors}
    there = [a for a in anchors if expected[a] and found[a]]
    ratios = [
        expected[anchor] / found[anchor]
        for anchor in [a for a in there if a[0] not in ARITHMETIC] or there
        for _ in range(anchors[anchor])
    ]
    return statistics.median(ratios) if ratios else 1.0
