"""printf, assert, breakpoints and calls: what kernels ask of the system around them."""

import ctypes

import numpy as np
import pytest

from astra_kernels.simulator import FaultKind, UnsupportedPtx


@pytest.fixture(scope="module")
def system(device, built):
    return device.simulator.load(built["system"])


@pytest.fixture
def printed(capfd):
    """Everything on standard output since the test began."""
    ctypes.CDLL(None).fflush(None)
    capfd.readouterr()
    return lambda: capfd.readouterr().out


def test_printf_writes_what_the_c_library_would(device, system, printed):
    x, suffix = np.arange(32, dtype=np.float32), np.frombuffer(b"xyz\0", np.uint8).copy()
    assert device.run(system, "speaks", x, suffix, 3) == 0
    words = ["even", "odd", "even"]
    lines = [f"thread {i}: {words[i]} {i:8.3f}|-7    |00beef|{2**40}|z%" for i in range(3)]
    lines += ["   42|1.23e+03|  xyz|4000000000|9|44", "plain text"]
    assert printed().splitlines() == lines


def test_what_is_printed_is_bounded(device, system, printed):
    assert device.run(system, "floods", 20_000) == 0
    text = printed()
    assert 1_000_000 < len(text) < 1_100_000
    assert text.rstrip().endswith("(the kernel printed more than 1 MiB; the rest is not shown)")
    assert text.startswith("0" * 100 + "\n")


def test_a_string_outside_of_memory_is_a_fault(device, system, printed):
    x, unterminated = np.zeros(32, np.float32), np.frombuffer(b"xyzx", np.uint8).copy()
    assert device.run(system, "speaks", x, unterminated, 1) == 700
    assert device.launch.fault.kind == FaultKind.GLOBAL_BOUNDS
    assert "0 bytes after the end of 'argument 1'" in str(device.launch.fault)


def test_a_failed_assertion_says_what_and_where(device, system):
    y = 3 * np.arange(64, dtype=np.int32)
    assert device.run(system, "checks", y) == 710
    fault = device.launch.fault
    assert (fault.kind, fault.thread) == (FaultKind.ASSERTION, (34, 0, 0))
    assert 'assertion `y[threadIdx.x] < 100 && "too large"` failed' in fault.detail
    assert f"system.cu:{fault.line.line}: void check(const int *)" in fault.detail
    assert device.run(system, "checks", np.zeros(64, np.int32)) == 0


def test_a_breakpoint_stops_the_kernel(device, system):
    assert device.run(system, "stops", np.arange(32, dtype=np.int32)) == 719
    assert device.launch.fault.kind == FaultKind.TRAP
    assert device.launch.fault.thread == (3, 0, 0)


def test_functions_that_are_not_inlined(device, system):
    y = np.arange(32, dtype=np.int32)
    assert device.run(system, "calls", y) == 0
    np.testing.assert_array_equal(y, np.arange(32) * np.where(np.arange(32) % 3 == 0, 3, 2))


@pytest.mark.parametrize(
    ("entry", "reason"),
    [
        ("recurses", "recursion: .*fibonacci.* calls itself"),
        ("points", "a call through a pointer to a function"),
        ("dispatches", "a call through a pointer to a function"),
        ("allocates", "a call of malloc"),
    ],
)
def test_other_calls_are_refused(device, system, entry, reason):
    with pytest.raises(UnsupportedPtx, match=reason):
        device.run(system, entry, np.zeros(64, np.int64))
