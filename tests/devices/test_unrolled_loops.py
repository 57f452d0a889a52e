"""Copies of a loop's body share its turns as the code that unrolling makes does."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from astra_kernels.devices.unrolled_loops import Copy, Part, Work, loop_works, runs
from astra_kernels.simulator.control_flow import ControlFlow
from astra_kernels.simulator.executed import ExecutedBlock

LOAD, STORE = ("global_load_4", ("k.cu", 3, 3)), ("global_store_4", ("k.cu", 3, 3))
CASCADE = [Copy(1, True), Copy(16, True), Copy(8, False), Copy(4, False)]


def work(turns: float, entries: float) -> Work:
    return Work({LOAD: 1}, (Part(Copy(1, True), (1,), turns),), entries, 1)


@pytest.mark.parametrize(
    ("turns", "expected"),
    [
        (4, [0, 0, 0, 10]),
        (16, [0, 10, 0, 0]),
        (61, [10, 30, 10, 10]),
        (0, [0, 0, 0, 0]),
    ],
)
def test_wide_copies_take_all_they_can(turns, expected):
    assert runs(CASCADE, work(10 * turns, 10)) == expected


def test_warps_with_more_turns_than_others():
    # Of ten warps, three made five turns and seven made four.
    assert runs(CASCADE, work(43, 10)) == pytest.approx([3, 0, 0, 10])


def test_copies_as_wide_as_one_another_share():
    assert runs([Copy(1, True), Copy(1, True)], work(12, 2)) == [6, 6]


def test_what_no_copy_fits_is_the_narrowest_ones():
    assert runs([Copy(4, True)], work(30, 10)) == [7.5]


@given(
    st.lists(st.integers(2, 16), max_size=3, unique=True), st.integers(1, 50), st.integers(0, 900)
)
def test_no_turn_is_lost(widths, entries, turns):
    copies = [Copy(1, True), *(Copy(w, True) for w in widths)]
    found = runs(copies, work(turns, entries))
    assert sum(c.turns * n for c, n in zip(copies, found, strict=True)) == pytest.approx(turns)
    assert all(n >= 0 for n in found)


def test_loops_of_the_same_instructions_are_one_work():
    # The compiler unrolled by two (block 1) and left a remainder (block 3): 5 turns of 4 warps.
    line = {("k.cu", 3, 3): 2}
    ptx = (
        ExecutedBlock(4, {}, {}, (1,)),
        ExecutedBlock(8, line, {LOAD: 2, STORE: 2}, (1, 2)),
        ExecutedBlock(4, {}, {}, (3,)),
        ExecutedBlock(4, line, {LOAD: 1, STORE: 1}, (4,)),
        ExecutedBlock(4, {}, {}, (5,)),
    )
    (found,) = loop_works(ptx, ControlFlow([b.successors for b in ptx]))
    assert found.anchors == {LOAD: 1, STORE: 1}
    assert {p.copy: p.executions for p in found.parts} == {Copy(2, True): 8, Copy(1, False): 4}
    assert (found.turns, found.entries, found.depth) == (20, 4, 1)
