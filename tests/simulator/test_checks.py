"""What the checks of a launch find: each kernel has one fault and a twin without it."""

from pathlib import Path

import numpy as np
import pytest

from astra_kernels.simulator import FaultKind, SimulatorOptions
from tests.simulator.conftest import SOURCES

LINES = (SOURCES / "checks.cu").read_text().splitlines()
RACE, GLOBAL_RACE = FaultKind.SHARED_RACE, FaultKind.GLOBAL_RACE
LAUNCH_FAILURE = 719
ORDERS = (0, 1, 2)


@pytest.fixture(scope="module")
def library(device, built):
    return device.simulator.load(built["checks"])


def lines_of(kind, mark):
    found = [i for i, text in enumerate(LINES, 1) if text.endswith(f"// {kind}: {mark}")]
    assert found, f"no line is marked {kind}: {mark}"
    return found


def run(device, library, entry, *arguments, order=0):
    options = SimulatorOptions(checks=True, order=order)
    code = device.run(library, entry, *arguments, options=options)
    return code, device.launch.fault


def values(size=256):
    return np.zeros(size, np.int32)


def buffers(entry):
    """The arguments before `wrong`."""
    return {
        "copy": (np.arange(256, dtype=np.int32), values(64)),
        "last_block": (np.zeros(1, np.uint32), np.zeros(320, np.int16), values(64)),
        "chain": (values(5), values(5), values(5)),
        "grid": (values(5), values(320)),
    }.get(entry, (values(),))


# entry, how it is wrong, what is found, whether the other side has a line marked with the entry's name
FAULTS = [
    ("reads", 1, RACE, True),
    ("both_write", 1, RACE, False),
    ("at_once", 1, RACE, False),
    ("within_warp", 1, RACE, True),
    ("old_volatile", 1, RACE, True),
    ("half_meets", 1, RACE, True),
    ("shuffled", 1, RACE, True),
    ("count", 1, RACE, True),
    ("copy", 1, FaultKind.COPY_UNDER_WAY, True),
    ("copy", 2, RACE, True),
    ("same_place", 1, GLOBAL_RACE, False),
    ("neighbour", 1, GLOBAL_RACE, True),
    ("in_block", 1, GLOBAL_RACE, True),
    ("last_block", 1, GLOBAL_RACE, True),
    ("chain", 1, GLOBAL_RACE, True),
    ("lock", 1, GLOBAL_RACE, False),
    ("grid", 1, GLOBAL_RACE, True),
    ("matrix_rows", 1, RACE, True),
    ("matrix_stores", 1, RACE, False),
    ("unwritten_shared", 1, FaultKind.SHARED_UNWRITTEN, False),
    ("unwritten_local", 1, FaultKind.LOCAL_UNWRITTEN, False),
    ("unwritten_global", 1, FaultKind.GLOBAL_UNWRITTEN, False),
    ("unwritten_global", 2, FaultKind.GLOBAL_UNWRITTEN, False),
    ("unwritten_global", 4, FaultKind.GLOBAL_UNWRITTEN, False),
    ("exited", 5, FaultKind.ABSENT_LANE, False),
    ("divergent", 1, FaultKind.DIVERGENT_BARRIER, True),
]
SYMMETRIC = {
    "reads",
    "copy",
    "last_block",
    "neighbour",
    "in_block",
    "chain",
    "grid",
    "count",
    "divergent",
    "matrix_rows",
}
"""Either of the two lines may come first, by the order of warps and blocks."""


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize(("entry", "wrong", "kind", "two"), FAULTS)
def test_a_fault_is_found_with_both_sides(device, library, entry, wrong, kind, two, order):
    code, fault = run(device, library, entry, *buffers(entry), wrong, order=order)
    assert fault is not None
    assert (code, fault.kind) == (LAUNCH_FAILURE, kind), str(fault)
    assert Path(fault.line.file).name == "checks.cu"
    here = lines_of("here", entry)
    other = lines_of("other", entry) if two else here
    places = here + other if entry in SYMMETRIC else here
    assert fault.line.line in places, str(fault)
    if "race" in kind:
        assert fault.other.line.line in (here + other)
        assert (fault.other.block, fault.other.thread) != (fault.block, fault.thread)
        assert f"checks.cu:{fault.other.line.line}" in fault.detail


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize(
    "entry", dict.fromkeys([*(row[0] for row in FAULTS), "overwrite", "named"])
)
def test_the_twin_without_the_fault_passes(device, library, entry, order):
    code, fault = run(device, library, entry, *buffers(entry), 0, order=order)
    assert (code, fault) == (0, None)


@pytest.mark.parametrize("order", ORDERS)
def test_what_is_read_may_not_be_overwritten_before_a_barrier(device, library, order):
    """Warps run one after the other, so the read of the later one finds the write of the earlier one, or it is seen."""
    code, fault = run(device, library, "overwrite", values(64), 1, order=order)
    assert (code, fault.kind) == (LAUNCH_FAILURE, RACE)
    first = next(i for i, text in enumerate(LINES, 1) if "int v = s[63" in text)
    assert {fault.line.line, fault.other.line.line} == {first, first + 2}


@pytest.mark.parametrize("order", ORDERS)
def test_a_barrier_before_the_wait_does_not_help(device, library, order):
    code, fault = run(device, library, "copy", *buffers("copy"), 3, order=order)
    assert (code, fault.kind) in [
        (LAUNCH_FAILURE, RACE),
        (LAUNCH_FAILURE, FaultKind.COPY_UNDER_WAY),
    ]
    assert fault.other.line.line == lines_of("other", "copy")[0]


@pytest.mark.parametrize("order", ORDERS)
def test_a_stage_may_not_be_filled_before_all_have_read_it(device, library, order):
    code, fault = run(device, library, "copy", *buffers("copy"), 4, order=order)
    assert (code, fault.kind) in [
        (LAUNCH_FAILURE, RACE),
        (LAUNCH_FAILURE, FaultKind.COPY_UNDER_WAY),
    ]
    refill = lines_of("here", "refill")
    assert refill[0] in (fault.line.line, fault.other.line.line)


def test_a_producer_that_does_not_wait_for_its_consumers(device, library):
    code, fault = run(device, library, "named", values(), 1)
    assert (code, fault.kind) == (LAUNCH_FAILURE, RACE)
    marked = [*lines_of("here", "named"), *lines_of("other", "named")]
    assert {fault.line.line, fault.other.line.line} == set(marked)


def test_without_checks_nothing_is_looked_for(device, library):
    for entry, wrong, *_ in FAULTS:
        if entry not in ("exited", "divergent"):
            assert device.run(library, entry, *buffers(entry), wrong) == 0


def test_a_copy_of_memory_is_written_where_its_source_was(device, library):
    assert run(device, library, "unwritten_global", values(), 3) == (0, None)


def test_orders_are_reproducible_and_differ(device, library):
    """The block that a race is found in follows from the order alone."""
    found = [
        [run(device, library, "same_place", values(), 1, order=o)[1].block for o in range(9)]
        for _ in range(2)
    ]
    assert found[0] == found[1]
    assert len(set(found[0])) > 1
