"""Divergence, exchange between lanes, barriers, atomics, calls and local memory."""

import ctypes

import numpy as np

from tests.simulator.conftest import random


def test_lanes_join_after_divergence(device, warps):
    out = np.zeros(64, np.int32)
    assert device.run(warps, "diverge", out) == 0
    steps = []
    for lane in range(32):
        s = sum(3 if i & 1 else 5 for i in range(lane * lane % 17))
        steps.append(s + (100 if lane & 1 else -100 if lane & 2 else 0))
    expected = [sum(steps) * 1000 + s for s in steps] * 2
    np.testing.assert_array_equal(out, expected)
    assert device.launch.counters.active_lanes < 32


def exchange_of_warp(v, block_flags):
    rows = np.zeros((32, 10), np.int64)
    count, any7, all_positive = block_flags
    ballot = sum((x & 1) << i for i, x in enumerate(v))
    for lane in range(32):
        same = sum(1 << j for j in range(32) if v[j] & 3 == v[lane] & 3)
        down = v[lane + 5] if lane % 16 + 5 <= 15 else v[lane]
        all_same = all(x >> 20 == v[0] >> 20 for x in v)
        rows[lane] = [
            v[lane - 3] if lane >= 3 else v[lane],
            down,
            v[(lane & ~7) | (lane * 7 % 8)],
            ballot,
            same,
            sum(v),
            0xFFFFFFFF + 1 if all_same else 0,
            any(x == 7 for x in v),
            count,
            max(v) + any7 * 1000 + all_positive * 2000,
        ]
    return rows & 0xFFFFFFFF


def test_shuffles_votes_matches_and_reductions(device, warps):
    values = np.random.default_rng(0).integers(0, 9, 128).astype(np.int32)
    values[40] = 1 << 22
    out = np.zeros((128, 10), np.uint32)
    assert device.run(warps, "exchange", values, out) == 0
    flags = (int((values > 5).sum()), int((values == 7).any()), 1)
    expected = np.concatenate(
        [exchange_of_warp(values[w : w + 32].tolist(), flags) for w in range(0, 128, 32)]
    )
    np.testing.assert_array_equal(out, expected)


def test_halves_of_a_warp_exchange_apart(device, warps):
    out = np.zeros(32, np.int32)
    assert device.run(warps, "half_warp", out) == 0
    upper = []
    for lane in range(16, 32):
        value = lane
        for _ in range(lane):
            value = (value * 3 + 1) & 0xFFFFFFFF
        upper.append(value)
    total = np.array(sum(upper) & 0xFFFFFFFF, np.uint32).astype(np.int32)
    np.testing.assert_array_equal(out, [sum(range(16))] * 16 + [total] * 16)


def test_named_barriers_order_producer_and_consumer(device, warps):
    out = np.zeros(32, np.int32)
    assert device.run(warps, "named_barrier", out) == 0
    np.testing.assert_array_equal(out, [600 + 4 * (31 - lane) for lane in range(32)])
    assert device.launch.counters.barriers == 8


def test_calls_local_memory_constants_switch_and_module_variables(device, warps):
    y = np.zeros(32, np.float32)
    assert device.run(warps, "mixed", y, 6) == 0
    parameters, expected = [1, 2, 3, 4, 5, 6], []
    for thread in range(32):
        local, s = [i * parameters[i % 6] for i in range(8)], 0.0
        for j in range(6):
            local[(thread + j) & 7] += 1
            s += local[(thread + j + 3) & 7] * 2
        s = [s + 1, s * 2, s - 3, s * s, np.sqrt(s), -s, 0][thread % 7]
        expected.append(s + (thread & 15) + 1)
    np.testing.assert_allclose(y, expected, rtol=1e-6)


def test_a_host_reads_and_writes_module_variables(device, warps):
    value = ctypes.c_int()
    assert warps.function("write_counter")(41) == 0
    assert device.run(warps, "mixed", np.zeros(32, np.float32), 0) == 0
    assert warps.function("read_counter")(ctypes.byref(value)) == 0
    assert value.value == 41 + 32


def test_lanes_that_spin_let_the_lock_holder_go_on(device, warps):
    count = np.zeros(1, np.int32)
    assert device.run(warps, "locked", count) == 0
    assert count[0] == 128


def test_histogram(device, warps):
    x = np.random.default_rng(0).integers(-2, 70, 20000).astype(np.int32)
    bins = np.full(64, 9, np.uint32)
    assert device.run(warps, "histogram", x, bins, x.size, 64) == 0
    np.testing.assert_array_equal(bins, np.bincount(x[(x >= 0) & (x < 64)], minlength=64))


def test_atomics_of_each_type(device, warps):
    h, f, d = np.zeros(2, np.float16), np.zeros(1, np.float32), np.zeros(1)
    u, i = np.zeros(3, np.uint32), np.zeros(1, np.int32)
    assert device.run(warps, "atomics", h, f, d, u, i) == 0
    np.testing.assert_array_equal(h, [192, 384])
    assert (f[0], d[0]) == (96, 48)
    assert (u[0], u[1], u[2], i[0]) == (285, 0, 192 % 10, -95)


def test_cooperative_groups_tiles(device, warps):
    x = random(64)
    y = np.zeros_like(x)
    assert device.run(warps, "tiles", x, y) == 0
    np.testing.assert_allclose(y, x.reshape(4, 16).sum(1).repeat(16), atol=1e-5)
