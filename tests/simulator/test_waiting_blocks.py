"""Blocks of ordinary launches that wait for one another: those that are resident together take turns."""

import numpy as np
import pytest

from astra_kernels.simulator import FaultKind, SimulatorOptions, SimulatorRefusal
from tests.simulator.conftest import SOURCES, compile_library
from tests.simulator.handwritten import module_of, run

MULTIPROCESSORS, TIMED_OUT = 132, 702


@pytest.fixture(scope="module")
def waiting(device, toolchain, made_once):
    folder = made_once(
        "waiting-blocks",
        lambda folder: compile_library(
            toolchain, SOURCES / "waiting.cu", folder / "waiting.so", "--no-compress"
        ),
    )
    return device.simulator.load(folder / "waiting.so")


def buffers(blocks):
    return np.zeros(1, np.uint32), np.zeros(64 * blocks, np.int32), np.zeros(64 * blocks, np.int32)


@pytest.mark.parametrize("by_exchange", [0, 1])
@pytest.mark.parametrize("checks", [False, True])
@pytest.mark.parametrize("order", [0, 1, 2])
@pytest.mark.parametrize("blocks", [1, 3, MULTIPROCESSORS])
def test_a_grid_barrier_of_the_kernels_own(device, waiting, blocks, order, checks, by_exchange):
    options = SimulatorOptions(checks=checks, order=order)
    count, a, y = buffers(blocks)
    assert device.run(waiting, "barrier", count, a, y, blocks, by_exchange, options=options) == 0
    assert device.launch.fault is None
    np.testing.assert_array_equal(y, np.roll(np.arange(64 * blocks), -37))


def test_more_blocks_than_the_device_holds(device, waiting):
    """With so much shared memory one block fits on a multiprocessor."""
    count, a, y = buffers(MULTIPROCESSORS)
    assert device.run(waiting, "crowded", count, a, y, MULTIPROCESSORS) == 0
    np.testing.assert_array_equal(y, np.roll(np.arange(64 * MULTIPROCESSORS), -37))
    count, a, y = buffers(MULTIPROCESSORS + 1)
    assert device.run(waiting, "crowded", count, a, y, MULTIPROCESSORS + 1) == TIMED_OUT
    assert device.launch.fault.kind == FaultKind.DEADLOCK
    assert "will never come" in device.launch.fault.detail


@pytest.mark.parametrize("order", [0, 1, 2])
@pytest.mark.parametrize("blocks", [2, 300])
def test_a_block_waits_for_a_later_one(device, waiting, blocks, order):
    options = SimulatorOptions(order=order)
    y = np.zeros(64, np.int32)
    arguments = (np.zeros(1, np.int32), np.zeros(64, np.int32), y, blocks)
    assert device.run(waiting, "flag", *arguments, options=options) == 0
    np.testing.assert_array_equal(y, np.arange(1, 65))


@pytest.mark.parametrize("order", [0, 1])
def test_a_chain_longer_than_what_is_resident(device, waiting, order):
    """Earlier blocks never wait for later ones, so there need be no room for all."""
    blocks = 132 * 32 + 500
    y = np.zeros(blocks, np.int32)
    options = SimulatorOptions(order=order)
    assert (
        device.run(waiting, "lookback", np.zeros(blocks, np.int32), y, blocks, options=options) == 0
    )
    np.testing.assert_array_equal(y, np.arange(1, blocks + 1))


def test_a_sample_runs_the_blocks_that_it_waits_for(device, waiting):
    y = np.zeros(300, np.int32)
    options = SimulatorOptions(block_sample=4)
    assert device.run(waiting, "lookback", np.zeros(300, np.int32), y, 300, options=options) == 0
    assert device.launch.executed_blocks == 300
    np.testing.assert_array_equal(y, np.arange(1, 301))


def test_counts_do_not_depend_on_host_threads(device, waiting):
    counts = []
    for threads in (1, 2):
        count, a, y = buffers(20)
        options = SimulatorOptions(threads=threads)
        assert device.run(waiting, "barrier", count, a, y, 20, 0, options=options) == 0
        counts.append(device.launch.counters)
    assert counts[0] == counts[1]


@pytest.mark.parametrize("by_clock", [0, 1])
@pytest.mark.parametrize("order", [0, 1])
def test_a_block_that_gives_up_is_no_deadlock(device, waiting, order, by_clock):
    y = np.zeros(3, np.int32)
    arguments = (np.zeros(1, np.int32), y, 200_000, by_clock)
    assert device.run(waiting, "patient", *arguments, options=SimulatorOptions(order=order)) == 0
    assert y.all()


def test_a_flag_that_nobody_sets(device, waiting):
    """The last block is the one that sets it; here there is no such block."""
    arguments = (np.zeros(1, np.int32), np.zeros(64, np.int32), np.zeros(64, np.int32), 1)
    assert device.run(waiting, "flag", *arguments) == TIMED_OUT
    assert device.launch.fault.kind == FaultKind.DEADLOCK


@pytest.mark.full
def test_waiting_blocks_that_the_host_cannot_hold_are_refused():
    """Block 0 waits for the last one, and each has 512 KiB of local memory a thread."""
    body = """
  ld.param.u64 %rd1, [p0];
  mov.u64 %rd2, mine;
  st.local.u32 [%rd2], 1;
  mov.u32 %r1, %ctaid.x;
  mov.u32 %r2, %nctaid.x;
  sub.u32 %r2, %r2, 1;
  setp.eq.u32 %p1, %r1, %r2;
  @%p1 bra LAST;
WAIT:
  ld.volatile.global.u32 %r3, [%rd1];
  setp.eq.u32 %p2, %r3, 0;
  @%p2 bra WAIT;
  ret;
LAST:
  st.global.u32 [%rd1], 1;
"""
    text = module_of(body, declarations="  .local .align 4 .b8 mine[524288];")
    with pytest.raises(
        SimulatorRefusal, match=r"wait for others, and 127 of its 131 blocks fill 2 GiB"
    ):
        run(text, np.zeros(1, np.uint32), blocks=131)
