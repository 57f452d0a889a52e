"""Blocks that wait for each other: cooperative launches and their grid barrier."""

import numpy as np
import pytest

from astra_kernels.simulator import FaultKind, SimulatorOptions, SimulatorRefusal
from tests.simulator.conftest import random

TOO_LARGE, TRAPPED, TIMED_OUT = 720, 719, 702


@pytest.fixture(scope="module")
def cooperative(device, built):
    return device.simulator.load(built["cooperative"])


@pytest.mark.parametrize("blocks", [1, 7, 132])
def test_a_reduction_in_two_phases(device, cooperative, blocks):
    x = (random(5000) * 100).astype(np.int32)
    partial, y = np.zeros(blocks, np.int32), np.zeros(blocks, np.int32)
    assert device.run(cooperative, "reduce", x, x.size, partial, y, blocks) == 0
    padded = np.zeros(-(-x.size // (96 * blocks)) * 96 * blocks, np.int64)
    padded[: x.size] = x
    sums = padded.reshape(-1, blocks, 96).sum((0, 2))
    np.testing.assert_array_equal(partial, sums)
    np.testing.assert_array_equal(y, x.sum() + sums)


@pytest.mark.parametrize("slow", [0, 30_000], ids=["even", "uneven"])
def test_barriers_in_a_row(device, cooperative, slow):
    """A block that took part in a barrier too early would read what its neighbour has not written yet."""
    rounds, blocks = 9, 12
    a, b, y = (
        np.arange(blocks, dtype=np.int32) * 7,
        np.zeros(blocks, np.int32),
        np.zeros(blocks, np.int32),
    )
    expected = np.roll(a, -rounds)
    assert device.run(cooperative, "rotate", a, b, rounds, slow, y, blocks) == 0
    np.testing.assert_array_equal(y, expected)


def test_a_block_may_wait_for_one_that_starts_later(device, cooperative):
    flags = np.zeros(41, np.int32)
    assert device.run(cooperative, "chain", flags, 40) == 0
    np.testing.assert_array_equal(flags, [*range(40, 0, -1), 0])


def test_blocks_that_share_a_queue_are_not_taken_for_idle(device, cooperative):
    done, n = np.zeros(40_000, np.int32), 40_000
    assert device.run(cooperative, "queue", np.zeros(1, np.uint32), n, done, 2) == 0
    assert done.all()


def test_counts_are_the_same_in_every_run(device, cooperative):
    counts = []
    for threads in (1, 2, 2):
        a, b, y = (np.zeros(12, np.int32) for _ in range(3))
        options = SimulatorOptions(threads=threads)
        assert device.run(cooperative, "rotate", a, b, 3, 5_000, y, 12, options=options) == 0
        counts.append(device.launch.counters)
    assert counts[0] == counts[1] == counts[2]
    assert counts[0].distinct_bytes_written == 3 * 64, (
        "the barrier's own counter is not the kernel's memory"
    )


def test_a_sample_runs_all_blocks(device, cooperative):
    y = np.zeros(50, np.int32)
    options = SimulatorOptions(block_sample=4)
    assert device.run(cooperative, "valid", y, 50, options=options) == 0
    assert (y.sum(), device.launch.executed_blocks, device.launch.sampled) == (50, 50, False)


@pytest.mark.parametrize("wanted", [0, 1])
def test_the_attribute_makes_a_launch_cooperative(device, cooperative, wanted):
    y = np.full(3, -1, np.int32)
    assert device.run(cooperative, "valid_by_attribute", y, 3, wanted) == 0
    np.testing.assert_array_equal(y, wanted)


def test_all_blocks_must_fit_at_once(device, cooperative):
    most = 2 * device.simulator.machine.multiprocessors
    y = np.zeros(most + 1, np.int32)
    assert device.run(cooperative, "largest", y, 1) == TOO_LARGE
    assert (y.sum(), device.launch) == (0, None)
    assert device.run(cooperative, "largest", y, 0) == 0
    assert y.sum() == most


def test_a_grid_barrier_in_an_ordinary_launch_traps(device, cooperative):
    assert device.run(cooperative, "alone", np.zeros(4, np.int32), 4) == TRAPPED
    assert device.launch.fault.kind == FaultKind.TRAP


def test_a_block_that_never_comes_to_the_grid_barrier(device, cooperative):
    y = np.zeros(8, np.int32)
    assert device.run(cooperative, "absent", y, 8) == TIMED_OUT
    assert (device.launch.fault.kind, device.launch.fault.block) == (FaultKind.DEADLOCK, (0, 0, 0))
    assert (y[1], y.sum()) == (1, 1)


def test_a_block_that_loops_for_ever_before_the_grid_barrier(device, cooperative):
    options = SimulatorOptions(step_limit=50_000)
    assert (
        device.run(cooperative, "endless", np.zeros(4, np.int32), 4, options=options) == TIMED_OUT
    )
    assert (device.launch.fault.kind, device.launch.fault.block) == (
        FaultKind.STEP_LIMIT,
        (1, 0, 0),
    )


def test_a_deadlock_within_a_block(device, cooperative):
    assert device.run(cooperative, "halves", np.zeros(3, np.int32), 3) == TIMED_OUT
    assert device.launch.fault.kind == FaultKind.DEADLOCK


def test_memory_is_checked_after_the_barrier(device, cooperative):
    y = np.zeros(4, np.int32)
    assert device.run(cooperative, "outside", y, 0, 4) == 0
    assert y.all()
    assert device.run(cooperative, "outside", y, 1, 4) == 700
    assert (device.launch.fault.kind, device.launch.fault.block) == (
        FaultKind.GLOBAL_BOUNDS,
        (3, 0, 0),
    )


def test_a_launch_that_the_host_cannot_hold_is_refused(device, cooperative):
    blocks = 2 * device.simulator.machine.multiprocessors
    with pytest.raises(SimulatorRefusal, match=f"cooperative launch of .* {blocks} blocks hold"):
        device.run(cooperative, "huge", np.zeros(1, np.int32), blocks)
