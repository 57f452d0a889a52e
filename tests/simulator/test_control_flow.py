"""Dominators, loops and regions are what their definitions say, on random graphs too."""

import random

from hypothesis import assume, given
from hypothesis import strategies as st

from astra_kernels.simulator.control_flow import ControlFlow
from tests.simulator.graphs import Structured, graphs, walk

# An early exit, a loop with a branch inside, and code behind it.
LOOPED = ControlFlow([(1, 6), (2,), (3, 4), (4,), (2, 5), (6,)])


def test_a_loop_and_what_runs_equally_often():
    assert [(loop.header, loop.body) for loop in LOOPED.loops] == [(2, frozenset({2, 3, 4}))]
    assert LOOPED.depths == [0, 0, 1, 1, 1, 0]
    assert sorted(map(sorted, LOOPED.regions)) == [[0], [1, 5], [2, 4], [3]]


def test_loops_inside_one_another():
    flow = ControlFlow([(1,), (2,), (2, 3), (1, 4), (5,)])
    assert flow.depths == [0, 1, 2, 1, 0]
    inner = flow.innermost[2]
    assert inner is not None
    assert flow.loops[inner].body == {2}
    assert sorted(map(sorted, flow.regions)) == [[0, 4], [1, 3], [2]]


def test_what_nothing_leads_to_is_in_no_region():
    flow = ControlFlow([(2,), (2,), (3,)])
    assert flow.reachable == {0, 2}
    assert flow.regions == [(0, 2)]


def test_a_loop_without_an_end_is_analysed():
    assert ControlFlow([(1,), (1,)]).depths == [0, 1]


def _leads(flow: ControlFlow, start: int, goal: int, without: int | None) -> bool:
    seen: set[int] = set()
    waiting = [start]
    while waiting:
        block = waiting.pop()
        if block == without or block in seen:
            continue
        if block == goal:
            return True
        seen.add(block)
        waiting += flow.successors[block] if block < len(flow.successors) else ()
    return False


@given(graphs())
def test_dominators_are_on_every_way(successors):
    flow = ControlFlow(successors)
    end = len(successors)
    for block in flow.reachable:
        for other in flow.reachable:
            before = block == other or not _leads(flow, 0, block, other)
            behind = block == other or not _leads(flow, block, end, other)
            assert bool(flow.dominators[block] >> other & 1) == before
            if _leads(flow, block, end, None) and _leads(flow, other, end, None):
                assert bool(flow.postdominators[block] >> other & 1) == behind


@given(graphs(), st.integers(0, 2**32))
def test_blocks_of_a_region_run_equally_often(successors, seed):
    flow = ControlFlow(successors)
    counts = walk(successors, random.Random(seed))
    assume(counts is not None)
    for region in flow.regions:
        assert len({counts[block] for block in region}) == 1


@given(st.integers(0, 2**32), st.integers(1, 4))
def test_warps_whose_lanes_part_run_a_region_equally_often(seed, warps):
    program = Structured(random.Random(seed))
    for _ in range(warps):
        program.run()
    for region in ControlFlow(program.successors).regions:
        assert len({program.counts[block] for block in region}) == 1
