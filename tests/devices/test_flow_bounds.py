"""What flow allows holds the truth, and is as narrow as what is known makes it."""

import random
from math import inf

from hypothesis import assume, given
from hypothesis import strategies as st

from astra_kernels.devices.flow_bounds import FlowBounds
from astra_kernels.simulator.control_flow import ControlFlow
from tests.simulator.graphs import Structured, graphs, walk


def test_a_loop_that_does_not_turn_is_not_come_to():
    # 1 leads to the loop 2 only; 3 is behind both ways.
    relations = FlowBounds(ControlFlow([(1, 3), (2,), (2, 3), (4,)]))
    at = relations.region_of
    bounds = relations.bounds({at[0]: 8.0, at[2]: 0.0})
    assert bounds[at[1]] == (0.0, 0.0)
    assert bounds[at[3]] == (8.0, 8.0)


def test_one_way_takes_what_the_other_does_not():
    relations = FlowBounds(ControlFlow([(1, 2), (3,), (3,), (4,)]))
    at = relations.region_of
    assert relations.bounds({at[0]: 8.0, at[1]: 3.0})[at[2]] == (5.0, 8.0)


def test_an_early_end_takes_any_number():
    relations = FlowBounds(ControlFlow([(1, 2), (2,)]))
    at = relations.region_of
    assert relations.bounds({at[0]: 8.0})[at[1]] == (0.0, 8.0)


def test_a_loop_has_no_upper_bound():
    relations = FlowBounds(ControlFlow([(1,), (1, 2), (3,)]))
    at = relations.region_of
    assert relations.bounds({at[0]: 8.0})[at[1]] == (8.0, inf)


def test_known_counts_stay_though_they_contradict():
    relations = FlowBounds(ControlFlow([(1, 2), (2,)]))
    at = relations.region_of
    assert relations.bounds({at[0]: 2.0, at[1]: 5.0})[at[1]] == (5.0, 5.0)


def test_the_nearest_block_above():
    relations = FlowBounds(ControlFlow([(1, 4), (2, 3), (4,), (4,), (5,)]))
    at = relations.region_of
    assert relations.above([at[2], at[3]]) == at[1]
    assert relations.above([at[0]]) is None


@given(graphs(), st.integers(0, 2**32), st.integers(1, 4), st.floats(0, 1))
def test_bounds_hold_what_warps_did(successors, seed, warps, share):
    chosen = random.Random(seed)
    walks = [walk(successors, chosen) for _ in range(warps)]
    assume(all(counts is not None for counts in walks))
    flow = ControlFlow(successors)
    truth = [sum(counts[blocks[0]] for counts in walks if counts) for blocks in flow.regions]
    known = {n: float(count) for n, count in enumerate(truth) if chosen.random() < share}
    for count, (low, high) in zip(truth, FlowBounds(flow).bounds(known), strict=True):
        assert low <= count <= high


@given(st.integers(0, 2**32), st.integers(1, 4), st.floats(0, 1))
def test_bounds_hold_what_warps_did_whose_lanes_part(seed, warps, share):
    chosen = random.Random(seed)
    program = Structured(chosen)
    for _ in range(warps):
        program.run()
    flow = ControlFlow(program.successors)
    truth = [program.counts[blocks[0]] for blocks in flow.regions]
    known = {n: float(count) for n, count in enumerate(truth) if chosen.random() < share}
    for count, (low, high) in zip(truth, FlowBounds(flow).bounds(known), strict=True):
        assert low <= count <= high
