"""Allocations, copies and fills by a launcher: what does not fit is an error of the runtime's, never a crash."""

import ctypes

import numpy as np
import pytest

from astra_kernels.simulator import FaultKind, SimulatorOptions
from tests.simulator.conftest import SOURCES, compile_library

INVALID_VALUE, OUT_OF_MEMORY, INVALID_PITCH, INVALID_DIRECTION = 1, 2, 12, 21
HOST, MANAGED = (4, 5), 6
DEVICE_KINDS = (0, 1, 2, 3)
COPIES = tuple(range(15))
BY_ADDRESS = (5, 6)
OF_TWO_ROWS = (9, 10, 11, 14)


@pytest.fixture(scope="module")
def calls(device, toolchain, made_once):
    folder = made_once(
        "memory-calls",
        lambda folder: compile_library(
            toolchain, SOURCES / "memory_calls.cu", folder / "calls.so", "--no-compress"
        ),
    )
    return device.simulator.load(folder / "calls.so")


@pytest.fixture(autouse=True)
def _no_error_is_left(calls):
    """The runtime is the process's: other tests' launchers would return what these left."""
    yield
    calls.function("last_error")()


@pytest.mark.parametrize("how", [*DEVICE_KINDS, *HOST, MANAGED])
def test_more_memory_than_there_is(calls, how):
    assert calls.function("allocates")(how, 60_000, 1) == OUT_OF_MEMORY


@pytest.mark.parametrize("how", DEVICE_KINDS)
def test_freed_memory_comes_back(device, calls, how):
    gigabytes = device.simulator.machine.memory_bytes >> 30
    assert calls.function("allocates")(how, gigabytes - 1, 5) == 0
    assert calls.function("allocates")(how, gigabytes + 1, 1) == OUT_OF_MEMORY


def test_what_is_allocated_is_not_free(device, calls):
    gigabytes = device.simulator.machine.memory_bytes >> 30
    assert calls.function("twice")(gigabytes // 2 + 2) == OUT_OF_MEMORY
    assert calls.function("twice")(gigabytes // 3) == 0


def copy(device, calls, how, offset, size):
    y = np.zeros(100, np.uint8)
    return device.run(
        calls, "copies", y, how, ctypes.c_longlong(offset), ctypes.c_longlong(size)
    ), y


@pytest.mark.parametrize("how", COPIES)
def test_copies_and_fills_stay_inside(device, calls, how):
    assert copy(device, calls, how, 10, 20)[0] == 0
    rows = 2 if how in OF_TWO_ROWS else 1
    far = () if how in BY_ADDRESS else ((10**11, 4), (10**8, 4))  # else it may be the host's
    near = ((90, 11), (-1, 4), (10, 2**40), (50, 20 * rows))
    for offset, size in (*near, *far):
        expected = 0 if (offset, size, rows) == (50, 20, 1) else INVALID_VALUE
        code, y = copy(device, calls, how, offset, size)
        assert code == expected, (offset, size)
        assert expected == 0 or not y.any(), "nothing is written of what does not fit"
    assert copy(device, calls, how, 10**11, 0)[0] == 0


@pytest.mark.parametrize(
    ("how", "code"),
    [
        (20, INVALID_VALUE),
        (21, INVALID_VALUE),
        (22, INVALID_VALUE),
        (23, INVALID_VALUE),
        (24, INVALID_DIRECTION),
        (25, INVALID_VALUE),
        (30, INVALID_VALUE),
        (31, INVALID_VALUE),
        (32, INVALID_VALUE),
        (33, INVALID_PITCH),
    ],
)
def test_kinds_and_pointers_that_do_not_fit(device, calls, how, code):
    assert copy(device, calls, how, 10, 20)[0] == code


@pytest.mark.parametrize("how", range(4))
@pytest.mark.parametrize(
    ("offset", "size", "code"),
    [(0, 256, 0), (255, 1, 0), (255, 2, INVALID_VALUE), (-4, 4, INVALID_VALUE)],
)
def test_variables_have_an_end(calls, how, offset, size, code):
    wide = ctypes.c_longlong
    assert calls.function("symbols")(how, wide(offset), wide(size)) == code


@pytest.mark.parametrize("how", [*HOST, MANAGED])
def test_memory_that_the_host_shares_counts_as_written(device, calls, how):
    y = np.zeros(32, np.int32)
    options = SimulatorOptions(checks=True)
    assert device.run(calls, "shared_with_host", y, how, options=options) == 0
    assert device.launch.fault is None
    np.testing.assert_array_equal(y, np.arange(1, 33))


def test_memory_of_the_device_alone_does_not(device, calls):
    """The twin: the same calls with cudaMalloc, whose memory only a stand-in lets the host write."""
    options = SimulatorOptions(checks=True)
    device.run(calls, "shared_with_host", np.zeros(32, np.int32), 0, options=options)
    assert device.launch.fault.kind == FaultKind.GLOBAL_UNWRITTEN


def test_memory_is_freed_by_its_own_function_and_address(device, calls):
    assert device.run(calls, "wrong_free", np.zeros(4, np.int32)) == 111
