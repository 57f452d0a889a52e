"""Unmodified host launchers: attributes, limits, occupancy, streams, questions about device and kernel."""

import ctypes

import numpy as np
import pytest

INVALID_VALUE, INVALID_CONFIGURATION, TOO_LARGE = 1, 9, 720


@pytest.fixture(scope="module")
def hosting(device, built):
    return device.simulator.load(built["hosting"])


def test_a_block_size_from_the_occupancy_calculator(device, hosting):
    y, out = np.zeros(5000, np.int32), (ctypes.c_int * 3)()
    address = device.simulator.allocate(y.nbytes)
    device.simulator.write(address, y)
    assert hosting.function("tuned")(ctypes.c_void_p(address), 5000, out) == 0
    device.simulator.read(address, y)
    device.simulator.free(address)
    np.testing.assert_array_equal(y, 1)
    block, least, blocks = out
    assert block * blocks == 2048  # fills a multiprocessor
    assert least == 132 * blocks


def test_a_block_size_with_shared_memory_by_the_thread(hosting):
    out = (ctypes.c_int * 2)()
    assert hosting.function("variable")(out) == 0
    grid, block = out
    assert block * 64 <= 232448
    assert block % 32 == 0
    assert grid % 132 == 0


def test_a_launch_that_may_overlap_the_one_before(device, hosting):
    y = np.zeros(32, np.int32)
    assert device.run(hosting, "overlapping", y) == 0
    np.testing.assert_array_equal(y, 1)


def test_a_cooperative_launch_and_its_limit(device, hosting):
    y = np.full(20, -1, np.int32)
    assert device.run(hosting, "cooperates", y, 10) == 0
    np.testing.assert_array_equal(y[10:], (np.arange(10) + 1) % 10)
    assert device.run(hosting, "cooperates", y, 132 * 32 + 1) == TOO_LARGE


@pytest.mark.parametrize(
    ("shape", "code"),
    [
        ((1, 65535, 1), 0),
        ((1, 65536, 1), INVALID_CONFIGURATION),
        ((1, 1, 65536), INVALID_CONFIGURATION),
        ((0, 1, 1), INVALID_CONFIGURATION),
        ((2**31, 1, 1), INVALID_CONFIGURATION),
    ],
)
def test_limits_of_grids(hosting, shape, code):
    assert hosting.function("grid")(None, *(ctypes.c_uint(n) for n in shape)) == code


@pytest.mark.parametrize(
    ("shape", "code"),
    [
        ((1024, 1, 1), 0),
        ((16, 1, 64), 0),
        ((8, 1, 65), INVALID_CONFIGURATION),
        ((1025, 1, 1), INVALID_CONFIGURATION),
        ((33, 32, 1), INVALID_CONFIGURATION),
        ((1, 0, 1), INVALID_CONFIGURATION),
    ],
)
def test_limits_of_blocks(hosting, shape, code):
    assert hosting.function("block")(None, *(ctypes.c_uint(n) for n in shape)) == code


def test_more_threads_than_launch_bounds_allow(device, hosting):
    y = np.zeros(256, np.int32)
    assert device.run(hosting, "beyond_bounds", y, 256) == 0
    assert device.run(hosting, "beyond_bounds", y, 288) == INVALID_VALUE


def test_shared_memory_beyond_the_default_is_asked_for(device, hosting):
    y = np.zeros(32, np.int32)
    assert device.run(hosting, "shares", y, 49156, 0) == INVALID_VALUE
    assert device.run(hosting, "shares", y, 100_000, 100_000) == 0
    np.testing.assert_array_equal(y, 24_999)
    assert device.run(hosting, "shares", y, 100_004, 100_000) == INVALID_VALUE
    assert device.run(hosting, "shares", y, 232_448, 232_448) == 0
    assert device.run(hosting, "shares", y, 0, 232_449) == INVALID_VALUE


def test_properties_and_attributes_agree(hosting):
    out = (ctypes.c_int * 64)()
    assert hosting.function("attributes")(out) == 0
    threads, registers, version, dynamic, *pairs = out
    assert (threads, version, dynamic) == (256, 90, 49152)
    assert 16 <= registers <= 255
    pairs = [(a, b) for a, b in zip(pairs[::2], pairs[1::2], strict=True) if a or b]
    assert len(pairs) == 21  # compute capability 9.0 has a minor of 0
    assert all(a == b for a, b in pairs), pairs


def test_streams_events_and_memory_in_stream_order(device, hosting):
    y = np.zeros(300, np.int32)
    assert device.run(hosting, "streams", y, 300) == 0
    np.testing.assert_array_equal(y, 1)
