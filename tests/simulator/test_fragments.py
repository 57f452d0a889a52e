"""`wmma` as nvcc compiles it: every shape, type and layout against a product of whole matrices."""

import ml_dtypes
import numpy as np
import pytest

TYPES = {
    "f16": (np.float16, np.float32),
    "h16": (np.float16, np.float16),
    "bf16": (ml_dtypes.bfloat16, np.float32),
    "s8": (np.int8, np.int32),
    "u8": (np.uint8, np.int32),
}
SHAPES = {"16": (16, 16), "32": (32, 8), "8": (8, 32)}


@pytest.fixture(scope="module")
def tensor(device, built):
    return device.simulator.load(built["tensor"])


def stored(matrix, dtype, column_major):
    return np.ascontiguousarray((matrix.T if column_major else matrix).astype(dtype))


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("kind", TYPES)
@pytest.mark.parametrize("layouts", range(8))
def test_products_of_fragments(device, tensor, kind, shape, layouts):
    (dtype, result), (m, n) = TYPES[kind], SHAPES[shape]
    random = np.random.default_rng(layouts)
    a, b, c = (random.integers(0, 6, size) for size in ((m, 16), (16, n), (m, n)))
    if kind != "u8":
        a, c = a - 3, c - 3
    parts = [
        stored(matrix, kept, layouts >> bit & 1)
        for bit, (matrix, kept) in enumerate(((a, dtype), (b, dtype), (c, result)))
    ]
    assert device.run(tensor, f"{kind}_{shape}", *parts, layouts) == 0
    got = parts[2].T if layouts & 4 else parts[2]
    np.testing.assert_array_equal(got.astype(np.int64), 2 * (a @ b + c))  # small integers: exact


def test_fragments_in_double_precision(device, tensor):
    random = np.random.default_rng(0)
    a, b, c = random.standard_normal((8, 4)), random.standard_normal((4, 8)), np.zeros((8, 8))
    assert device.run(tensor, "f64", a, stored(b, np.float64, True), c) == 0
    np.testing.assert_allclose(c, a @ b + 1, rtol=1e-14, atol=1e-14)


def test_fragments_in_tf32(device, tensor):
    random = np.random.default_rng(0)
    a, b = (random.integers(-1023, 1024, shape) / 64 for shape in ((16, 8), (8, 16)))
    c = np.zeros((16, 16), np.float32)
    assert device.run(tensor, "tf32", a.astype(np.float32), b.astype(np.float32), c) == 0
    np.testing.assert_array_equal(c, (a @ b).astype(np.float32))  # 11 bits each: tf32 holds them
