"""Barriers with a number of threads: which warps take part in which phase."""

import numpy as np
import pytest

from astra_kernels.simulator import FaultKind, SimulatorOptions
from tests.simulator.handwritten import module_of, run

ORDERS = (0, 1, 2)
STEPS = 200_000
# Thread t puts t into shared memory and, behind the barrier, stores what thread t ^ 64 put there.
EXCHANGE = """
  ld.param.u64 %rd1, [p0];
  mov.u32 %r1, %tid.x;
  mul.wide.u32 %rd2, %r1, 4;
  add.u64 %rd1, %rd1, %rd2;
  shl.b32 %r2, %r1, 2;
  mov.u32 %r3, values;
  add.u32 %r4, %r3, %r2;
  st.shared.u32 [%r4], %r1;
{barrier}
  xor.b32 %r5, %r4, 256;
  ld.shared.u32 %r6, [%r5];
  st.global.u32 [%rd1], %r6;
"""
SHARED = "  .shared .align 256 .b8 values[512];"
# Stores 1 for every thread that comes past the barrier.
PASSED = """
  ld.param.u64 %rd1, [p0];
  mov.u32 %r1, %tid.x;
  mul.wide.u32 %rd2, %r1, 4;
  add.u64 %rd1, %rd1, %rd2;
{barrier}
  st.global.u32 [%rd1], 1;
"""


def launched(body, threads, *, order=0, checks=True, declarations=""):
    """The launch, and what its threads stored."""
    y = np.full(threads, -1, np.int32)
    options = SimulatorOptions(threads=1, checks=checks, order=order, step_limit=STEPS)
    launch = run(module_of(body, declarations=declarations), y, threads=threads, options=options)
    return launch, y


def exchanged(barrier, **how):
    return launched(EXCHANGE.format(barrier=barrier), 128, declarations=SHARED, **how)


def passed(barrier, threads, **how):
    return launched(PASSED.format(barrier=barrier), threads, **how)


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize(
    "barrier",
    [
        "bar.sync 1, 128;",
        "barrier.sync 1, 128;",
        "bar.sync 1;",
        "setp.eq.u32 %p1, %r1, 0; bar.red.popc.u32 %r9, 1, 128, %p1;",
    ],
)
def test_all_threads_exchange(barrier, order):
    launch, y = exchanged(barrier, order=order)
    assert launch.fault is None
    np.testing.assert_array_equal(y, np.arange(128) ^ 64)


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize(
    "barrier",
    [
        "bar.sync 1, 64;",
        "barrier.sync 1, 64;",
        "bar.sync 1, 96;",
        "bar.sync 1, 160;",
        "setp.eq.u32 %p1, %r1, 0; bar.red.popc.u32 %r9, 1, 64, %p1;",
    ],
)
def test_a_wrong_number_of_threads_is_found_in_every_order(barrier, order):
    """Also where by chance the two warps that exchange are in one phase."""
    launch, _ = exchanged(barrier, order=order)
    assert launch.fault.kind in (
        FaultKind.SHARED_RACE,
        FaultKind.BARRIER_RACE,
        FaultKind.DEADLOCK,
        FaultKind.SHARED_UNWRITTEN,
    )


@pytest.mark.parametrize("order", ORDERS)
def test_a_phase_ends_with_its_last_thread_and_a_warp_that_is_left_over_waits_for_ever(order):
    launch, y = passed("bar.sync 1, 64;", 96, order=order, checks=False)
    assert launch.fault.kind == FaultKind.DEADLOCK
    assert (y == 1).sum() == 64


def test_two_phases_of_two_warps_each():
    launch, y = passed("bar.sync 1, 64;", 128, checks=False)
    assert (launch.fault, (y == 1).sum(), launch.counters.barriers) == (None, 128, 2)


def test_votes_are_those_of_the_phase():
    body = PASSED.format(
        barrier="setp.lt.u32 %p1, %r1, 40; bar.red.popc.u32 %r9, 1, 64, %p1;"
    ).replace("], 1;", "], %r9;")
    launch, y = launched(body, 128, checks=False)
    assert launch.fault is None
    np.testing.assert_array_equal(y, np.repeat([40, 0], 64))


HALVES = """
  and.b32 %r2, %r1, 31;
  setp.lt.u32 %p1, %r2, 16;
  @%p1 bra LOWER;
  {upper}
  bra BOTH;
LOWER:
  {lower}
BOTH:
"""


@pytest.mark.parametrize(
    ("upper", "lower", "fault"),
    [
        ("barrier.sync 1, 64;", "barrier.sync 1, 64;", None),
        ("barrier.sync 1, 32;", "barrier.sync 1, 32;", None),  # a warp is 32, not 16 and 16
        ("barrier.sync 1, 64;", "barrier.arrive 1, 64;", None),
        ("barrier.sync 1, 64;", "exit;", None),  # those that ended are not waited for
        ("barrier.sync 1, 64;", "barrier.sync 2, 64;", FaultKind.DEADLOCK),
        ("barrier.sync 1, 16;", "barrier.sync 1, 16;", FaultKind.BARRIER_OPERAND),
        ("barrier.sync 1, 64;", "barrier.sync 1, 32;", FaultKind.BARRIER_OPERAND),
    ],
)
def test_a_warp_arrives_as_one(upper, lower, fault):
    launch, y = passed(HALVES.format(upper=upper, lower=lower), 64, checks=False)
    assert (launch.fault and launch.fault.kind) == fault
    if fault is None:
        expected = 32 if lower == "exit;" else 64
        assert (y == 1).sum() == expected


PRODUCE = """
  setp.lt.u32 %p1, %r1, 32;
  @%p1 bra PRODUCER;
  bar.sync 1, 64;
  bra BOTH;
PRODUCER:
  bar.arrive 1, 64;
  {again}
BOTH:
"""


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize(("again", "wrong"), [("", False), ("bar.arrive 1, 64;", True)])
def test_a_producer_does_not_wait(order, again, wrong):
    """One that arrives twice may fill the phase without the consumer."""
    launch, y = passed(PRODUCE.format(again=again), 64, order=order)
    if wrong:
        assert launch.fault.kind in (FaultKind.DEADLOCK, FaultKind.BARRIER_RACE)
    else:
        assert (launch.fault, (y == 1).sum()) == (None, 64)


@pytest.mark.parametrize(
    ("barrier", "said"),
    [
        ("mov.u32 %r7, 16; bar.sync %r7;", "no barrier 16: a block has those from 0 to 15"),
        ("mov.u32 %r7, -1; bar.sync %r7;", "no barrier 4294967295"),
        ("mov.u32 %r7, 17; bar.sync %r7, 64;", "no barrier 17"),
        ("mov.u32 %r7, 40; bar.sync 1, %r7;", "a barrier of 40 threads"),
        ("mov.u32 %r7, 0; bar.arrive 1, %r7;", "a barrier of 0 threads"),
    ],
)
def test_operands_that_no_barrier_has(barrier, said):
    launch, y = passed(barrier, 64, checks=False)
    assert launch.fault.kind == FaultKind.BARRIER_OPERAND
    assert said in launch.fault.detail
    assert (y == -1).all()
