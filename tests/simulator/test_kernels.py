"""Whole kernels through unmodified launchers, against NumPy in double precision."""

import ml_dtypes
import numpy as np
import pytest

from tests.simulator.conftest import random

BF16 = ml_dtypes.bfloat16


def close(got, expected, tolerance):
    expected = expected.astype(np.float64)
    error = np.abs(got.astype(np.float64) - expected)
    assert np.max(error) <= tolerance * np.max(np.abs(expected))


@pytest.mark.parametrize(("rows", "width", "threads"), [(3, 4096, 256), (2, 8, 32), (1, 1000, 96)])
def test_silu_and_mul(device, norms, rows, width, threads):
    x = random((rows, 2 * width), np.float16)
    out = np.zeros((rows, width), np.float16)
    assert device.run(norms, "silu_and_mul", out, x, rows, width, threads) == 0
    gate, value = x[:, :width].astype(np.float64), x[:, width:].astype(np.float64)
    close(out, gate / (1 + np.exp(-gate)) * value, 1e-3)


def test_rmsnorm_with_dynamic_shared_memory(device, norms):
    x, w = random((5, 1003)), random(1003, seed=1)
    y = np.zeros_like(x)
    assert device.run(norms, "rmsnorm", x, w, y, 5, 1003, 1e-5) == 0
    wide = x.astype(np.float64)
    close(y, wide / np.sqrt((wide**2).mean(1, keepdims=True) + 1e-5) * w, 1e-6)


def test_softmax_of_bfloat16(device, norms):
    x = random((4, 777), BF16)
    y = np.zeros_like(x)
    assert device.run(norms, "softmax", x, y, 4, 777) == 0
    e = np.exp(x.astype(np.float64) - x.astype(np.float64).max(1, keepdims=True))
    close(y, e / e.sum(1, keepdims=True), 4e-3)


def test_fp8_quantisation_is_exact(device, norms):
    x = random(2048, BF16)
    q = np.zeros(2048, ml_dtypes.float8_e4m3fn)
    assert device.run(norms, "quantize", x, q, 16.0, 2048) == 0
    expected = np.clip(x.astype(np.float32) * 16, -448, 448).astype(ml_dtypes.float8_e4m3fn)
    np.testing.assert_array_equal(q.view(np.uint8), expected.view(np.uint8))


def test_packed_halves(device, norms):
    a, b = random(2000, np.float16), random(2000, np.float16, 1)
    out = np.zeros_like(a)
    assert device.run(norms, "packed", a, b, out, 1000) == 0
    square = (a.astype(np.float64) ** 2).astype(np.float16)
    fused = (a.astype(np.float64) * b + square).astype(np.float16)
    power = np.exp2(np.minimum(a, np.float16(2)).astype(np.float64)).astype(np.float16)
    expected = np.maximum(fused, -b) + power
    np.testing.assert_allclose(out.astype(float), expected.astype(float), rtol=2e-3)


def test_asynchronous_copies_and_float_atomics(device, norms):
    x = random((3, 512, 4))
    y = np.ones(3, np.float32)
    assert device.run(norms, "staged_sum", x, y, 3, 512) == 0
    close(y, x.astype(np.float64).sum((1, 2)), 1e-5)


def test_double_precision(device, norms):
    x = np.linspace(-2, 3, 50)
    y = np.zeros_like(x)
    # The sine of a large number is reduced by products over several words, with carries.
    expected = np.exp(x) / np.sqrt(x * x + 1) + np.log(x + 3) * np.sin(x * 1e7)
    assert device.run(norms, "doubles", x, y, 50) == 0
    np.testing.assert_allclose(y, expected, rtol=1e-13)


@pytest.mark.parametrize("pad", [0, 1])
def test_transpose(device, norms, pad):
    x = random((70, 97))
    y = np.zeros((97, 70), np.float32)
    assert device.run(norms, "transpose", x, y, 70, 97, pad) == 0
    np.testing.assert_array_equal(y, x.T)


@pytest.mark.flashinfer
def test_flashinfer_kernels(device, flashinfer_library):
    library = device.simulator.load(flashinfer_library)
    x, w = random((4, 4096), np.float16), random(4096, np.float16, 1)
    residual = random((4, 4096), np.float16, 2)
    total = x.astype(np.float64) + residual
    assert device.run(library, "fused_add_rmsnorm", x, residual, w, 4, 4096, 1e-5) == 0
    close(residual, total, 1e-3)
    close(x, total / np.sqrt((total**2).mean(1, keepdims=True) + 1e-5) * w, 1e-3)
    gated, out = random((4, 8192), np.float16, 3), np.zeros((4, 4096), np.float16)
    assert device.run(library, "silu_and_mul", out, gated, 4, 4096) == 0
    gate = gated[:, :4096].astype(np.float64)
    close(out, gate / (1 + np.exp(-gate)) * gated[:, 4096:], 1e-3)
    va, vb = random((7, 8, 128), np.float16, 4), random((7, 8, 128), np.float16, 5)
    sa, sb = 3 * random((7, 8), seed=6), 3 * random((7, 8), seed=7)
    v, s = np.zeros_like(va), np.zeros_like(sa)
    assert device.run(library, "merge_state", va, sa, vb, sb, v, s, 7, 8, 128) == 0
    wa, wb = np.exp2(sa.astype(np.float64)), np.exp2(sb.astype(np.float64))
    close(v, (va * wa[..., None] + vb * wb[..., None]) / (wa + wb)[..., None], 1e-3)
    close(s, np.log2(wa + wb), 1e-6)
