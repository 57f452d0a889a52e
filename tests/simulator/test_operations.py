"""Each operation on its own, against Python integers, NumPy and ml_dtypes."""

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from astra_kernels.simulator.executor_interface import Executor
from astra_kernels.simulator.native import native_library

LANES = 32
U32 = st.integers(0, 2**32 - 1)
lanes = st.lists(U32, min_size=LANES, max_size=LANES)
wide_lanes = st.lists(st.integers(0, 2**64 - 1), min_size=LANES, max_size=LANES)
EXECUTOR = Executor(native_library())


def apply(name, *sources, result=np.uint32):
    out = np.zeros(LANES, result)
    EXECUTOR.apply(name, out, *(np.ascontiguousarray(s) for s in sources))
    return out


def words(values):
    return np.array(values, np.uint32)


def signed(value, bits=32):
    value &= (1 << bits) - 1
    return value - (1 << bits) if value >> (bits - 1) else value


INTEGER = {
    "add.s32": lambda a, b: a + b,
    "sub.u32": lambda a, b: a - b,
    "mul.lo.s32": lambda a, b: a * b,
    "mul.hi.u32": lambda a, b: (a * b) >> 32,
    "mul.hi.s32": lambda a, b: (signed(a) * signed(b)) >> 32,
    "div.u32": lambda a, b: a // b if b else 2**32 - 1,
    "rem.u32": lambda a, b: a % b if b else a,
    "min.s32": lambda a, b: min(signed(a), signed(b)),
    "max.u32": max,
    "mul24.lo.u32": lambda a, b: (a & 0xFFFFFF) * (b & 0xFFFFFF),
    "shl.b32": lambda a, b: a << b if b < 32 else 0,
    "shr.u32": lambda a, b: a >> b if b < 32 else 0,
    "shr.s32": lambda a, b: signed(a) >> min(b, 31),
    "and.b32": lambda a, b: a & b,
    "xor.b32": lambda a, b: a ^ b,
}


@pytest.mark.parametrize("name", INTEGER)
@settings(max_examples=40, deadline=None)
@given(a=lanes, b=lanes, small=st.booleans())
def test_integer_arithmetic(name, a, b, small):
    if small:
        b = [value % 40 for value in b]
    expected = [INTEGER[name](x, y) & 0xFFFFFFFF for x, y in zip(a, b, strict=True)]
    np.testing.assert_array_equal(apply(name, words(a), words(b)), words(expected))


@settings(max_examples=40, deadline=None)
@given(a=lanes, b=lanes, c=wide_lanes)
def test_wide_products(a, b, c):
    product = [(signed(x) * signed(y) + z) % 2**64 for x, y, z in zip(a, b, c, strict=True)]
    got = apply("mad.wide.s32", words(a), words(b), np.array(c, np.uint64), result=np.uint64)
    np.testing.assert_array_equal(got, np.array(product, np.uint64))


@settings(max_examples=60, deadline=None)
@given(a=lanes, b=lanes, selector=lanes)
def test_byte_permute(a, b, selector):
    expected = []
    for x, y, s in zip(a, b, selector, strict=True):
        data, out = (x | y << 32).to_bytes(8, "little"), 0
        for i in range(4):
            pick = s >> (4 * i) & 15
            byte = data[pick & 7]
            out |= ((255 if byte >> 7 else 0) if pick & 8 else byte) << (8 * i)
        expected.append(out)
    np.testing.assert_array_equal(apply("prmt.b32", words(a), words(b), words(selector)), expected)


@settings(max_examples=60, deadline=None)
@given(a=lanes, position=st.integers(0, 40), length=st.integers(0, 40))
def test_bit_fields(a, position, length):
    places = (words([position] * LANES), words([length] * LANES))
    mask = (1 << length) - 1
    unsigned = [(x >> position) & mask if position < 32 else 0 for x in a]
    np.testing.assert_array_equal(apply("bfe.u32", words(a), *places), words(unsigned))
    inserted = [(0xFFFFFFFF & ~(mask << position) | (x & mask) << position) & 0xFFFFFFFF for x in a]
    ones = words([0xFFFFFFFF] * LANES)
    np.testing.assert_array_equal(apply("bfi.b32", words(a), ones, *places), words(inserted))
    if length > 0 and position + length <= 32:
        negative = [signed((x >> position) & mask, length) & 0xFFFFFFFF for x in a]
        np.testing.assert_array_equal(apply("bfe.s32", words(a), *places), words(negative))


@settings(max_examples=40, deadline=None)
@given(a=lanes, b=lanes, n=st.integers(0, 70))
def test_funnel_shifts(a, b, n):
    amount = words([n] * LANES)
    both = [y << 32 | x for x, y in zip(a, b, strict=True)]
    for name, expected in {
        "shf.l.wrap.b32": [(v << (n & 31)) >> 32 & 0xFFFFFFFF for v in both],
        "shf.r.wrap.b32": [v >> (n & 31) & 0xFFFFFFFF for v in both],
        "shf.l.clamp.b32": [(v << min(n, 32)) >> 32 & 0xFFFFFFFF for v in both],
        "shf.r.clamp.b32": [v >> min(n, 32) & 0xFFFFFFFF for v in both],
    }.items():
        np.testing.assert_array_equal(apply(name, words(a), words(b), amount), words(expected))


@settings(max_examples=40, deadline=None)
@given(a=lanes, b=lanes, c=lanes, table=st.integers(0, 255))
def test_any_function_of_three_bits(a, b, c, table):
    expected = []
    for x, y, z in zip(a, b, c, strict=True):
        bits = (
            table >> ((x >> i & 1) << 2 | (y >> i & 1) << 1 | (z >> i & 1)) & 1 for i in range(32)
        )
        expected.append(sum(bit << i for i, bit in enumerate(bits)))
    got = apply("lop3.b32", words(a), words(b), words(c), words([table] * LANES))
    np.testing.assert_array_equal(got, words(expected))


@settings(max_examples=40, deadline=None)
@given(a=lanes)
def test_bit_counts(a):
    x = words(a)
    np.testing.assert_array_equal(apply("popc.b32", x), [v.bit_count() for v in a])
    np.testing.assert_array_equal(apply("clz.b32", x), [32 - v.bit_length() for v in a])
    np.testing.assert_array_equal(apply("brev.b32", x), [int(f"{v:032b}"[::-1], 2) for v in a])
    leading = [v.bit_length() - 1 if v else 0xFFFFFFFF for v in a]
    np.testing.assert_array_equal(apply("bfind.u32", x), words(leading))


def every_half():
    return np.arange(2**16, dtype=np.uint32).reshape(-1, LANES)


@pytest.mark.parametrize(
    ("name", "dtype"), [("cvt.f32.f16", np.float16), ("cvt.f32.bf16", ml_dtypes.bfloat16)]
)
def test_widening_all_16_bit_floats(name, dtype):
    for row in every_half():
        expected = row.astype(np.uint16).view(dtype).astype(np.float32)
        np.testing.assert_array_equal(apply(name, row, result=np.float32), expected)


def floats_around(dtype, bits):
    """All values of a narrow type, the midpoints between them, and their neighbours."""
    codes = np.arange(2**bits, dtype=np.uint16 if bits == 16 else np.uint8).view(dtype)
    values = np.unique(codes.astype(np.float32)[np.isfinite(codes.astype(np.float32))])
    middles = (values[1:].astype(np.float64) + values[:-1]) / 2
    middles = middles.astype(np.float32)
    near = [np.nextafter(middles, np.float32(s)) for s in (-np.inf, np.inf)]
    special = np.array([np.inf, -np.inf, 1e30, -1e30, 1e-30], np.float32)
    found = np.concatenate([values, middles, *near, special])
    return np.resize(found, -(-found.size // LANES) * LANES).reshape(-1, LANES)


@pytest.mark.parametrize(
    ("name", "dtype"), [("cvt.rn.f16.f32", np.float16), ("cvt.rn.bf16.f32", ml_dtypes.bfloat16)]
)
def test_narrowing_rounds_to_nearest_even(name, dtype):
    with np.errstate(over="ignore"):
        for row in floats_around(dtype, 16):
            expected = row.astype(dtype).view(np.uint16)
            np.testing.assert_array_equal(apply(name, row), expected)


@pytest.mark.parametrize(
    ("kind", "dtype", "largest"),
    [("e4m3x2", ml_dtypes.float8_e4m3fn, 448.0), ("e5m2x2", ml_dtypes.float8_e5m2, 57344.0)],
)
def test_8_bit_floats(kind, dtype, largest):
    for row in floats_around(dtype, 8):
        got = apply(f"cvt.rn.satfinite.{kind}.f32", row, -row)
        expected = np.clip(row, -largest, largest).astype(dtype).view(np.uint8)
        negative = np.clip(-row, -largest, largest).astype(dtype).view(np.uint8)
        np.testing.assert_array_equal(got, expected.astype(np.uint32) << 8 | negative)
    for start in range(0, 256, LANES):
        codes = np.arange(start, start + LANES, dtype=np.uint8)
        halves = apply(f"cvt.rn.f16x2.{kind}", codes.astype(np.uint32)).view(np.float16)[::2]
        np.testing.assert_array_equal(halves, codes.view(dtype).astype(np.float16))


floats = st.lists(st.floats(width=32), min_size=LANES, max_size=LANES)


@settings(max_examples=60, deadline=None)
@given(values=floats)
def test_floats_to_integers_saturate(values):
    row = np.array(values, np.float32)
    for name, rounding in {
        "rni": np.rint,
        "rzi": np.trunc,
        "rmi": np.floor,
        "rpi": np.ceil,
    }.items():
        wide = rounding(row.astype(np.float64))
        expected = np.clip(
            np.nan_to_num(wide, nan=0, posinf=2**40, neginf=-(2**40)), -(2**31), 2**31 - 1
        )
        got = apply(f"cvt.{name}.s32.f32", row).view(np.int32)
        np.testing.assert_array_equal(got, expected.astype(np.int64))


COMPARE = {
    "eq": lambda a, b: a == b,
    "ne": lambda a, b: (a < b) | (a > b),
    "lt": lambda a, b: a < b,
    "geu": lambda a, b: ~(a < b),
    "equ": lambda a, b: ~((a < b) | (a > b)),
    "neu": lambda a, b: a != b,
    "num": lambda a, b: (a == a) & (b == b),
    "nan": lambda a, b: (a != a) | (b != b),
}


@pytest.mark.parametrize("name", COMPARE)
@settings(max_examples=30, deadline=None)
@given(a=floats, b=floats, same=st.booleans())
def test_comparisons_with_nan(name, a, b, same):
    x, y = np.array(a, np.float32), np.array(a if same else b, np.float32)
    got = apply(f"setp.{name}.f32", x, y)[0]
    expected = sum(1 << i for i, holds in enumerate(COMPARE[name](x, y)) if holds)
    assert got == expected


@settings(max_examples=60, deadline=None)
@given(a=floats, b=floats, c=floats)
def test_directed_rounding_brackets_the_exact_sum(a, b, c):
    x, y, z = (np.clip(np.array(v, np.float32), -1e15, 1e15) for v in (a, b, c))
    down = apply("fma.rm.f32", x, y, z, result=np.float32)
    up = apply("fma.rp.f32", x, y, z, result=np.float32)
    nearest = apply("fma.rn.f32", x, y, z, result=np.float32)
    ordered = ~np.isnan(nearest)
    assert np.all(down[ordered] <= nearest[ordered])
    assert np.all(nearest[ordered] <= up[ordered])
    inexact = ordered & (down != up) & np.isfinite(down)
    np.testing.assert_array_equal(np.nextafter(down[inexact], np.float32(np.inf)), up[inexact])


def nearest_half(exact):
    """A long double rounded once; NumPy's own conversion goes through double and may round twice."""
    twice = np.float16(exact)
    if not np.isfinite(twice) or twice == 0 or abs(twice) == np.finfo(np.float16).max:
        return twice
    around = [twice, *(np.nextafter(twice, np.float16(end)) for end in (-np.inf, np.inf))]
    return min(around, key=lambda h: (abs(exact - np.longdouble(h)), h.view(np.uint16) & 1))


@pytest.mark.parametrize(("a", "b", "c"), [(1960, 61824, 1)])
def test_a_fused_half_multiply_add_where_rounding_twice_errs(a, b, c):
    got = apply("fma.rn.f16", *(np.full(LANES, bits, np.uint32) for bits in (a, b, c)))
    assert float(got.astype(np.uint16).view(np.float16)[0]) == -1.3154296875


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_a_fused_half_multiply_add_rounds_once(data):
    bits = st.lists(st.integers(0, 2**16 - 1), min_size=LANES, max_size=LANES)
    a, b, c = (np.array(data.draw(bits), np.uint16).view(np.float16) for _ in range(3))
    got = apply("fma.rn.f16", *(v.view(np.uint16).astype(np.uint32) for v in (a, b, c)))
    with np.errstate(all="ignore"):
        exact = a.astype(np.longdouble) * b.astype(np.longdouble) + c.astype(np.longdouble)
        expected = np.array([nearest_half(x) for x in exact], np.float16)
    got = got.astype(np.uint16).view(np.float16)
    np.testing.assert_array_equal(got, expected)


def test_denormals_are_flushed_only_where_asked():
    tiny = np.full(LANES, 1e-40, np.float32)
    one = np.ones(LANES, np.float32)
    assert np.all(apply("mul.f32", tiny, one, result=np.float32) == tiny)
    assert np.all(apply("mul.ftz.f32", tiny, one, result=np.float32) == 0)
    assert np.all(np.signbit(apply("mul.ftz.f32", -tiny, one, result=np.float32)))


@settings(max_examples=40, deadline=None)
@given(st.lists(st.floats(-126, 127, width=32), min_size=LANES, max_size=LANES))
def test_exponentials_are_within_one_unit_in_the_last_place(values):
    x = np.array(values, np.float32)
    got = apply("ex2.approx.f32", x, result=np.float32)
    exact = np.exp2(x.astype(np.float64))
    assert np.all(np.abs(got - exact) <= np.spacing(exact.astype(np.float32)))


def test_extremes_of_minimum_and_maximum():
    pairs = [(np.nan, 1.0, 1.0), (1.0, np.nan, 1.0), (-0.0, 0.0, -0.0), (0.0, -0.0, -0.0)]
    for a, b, smaller in pairs:
        x, y = np.full(LANES, a, np.float32), np.full(LANES, b, np.float32)
        got = apply("min.f32", x, y, result=np.float32)
        assert got[0] == smaller
        assert np.signbit(got[0]) == np.signbit(np.float32(smaller))
        if np.isnan(a + b):
            assert np.isnan(apply("max.NaN.f32", x, y, result=np.float32)[0])


@settings(max_examples=40, deadline=None)
@given(a=lanes, b=lanes, flags=U32)
def test_carries_of_sums_over_several_words(a, b, flags):
    flag = words([flags] * LANES)
    carried = [flags >> i & 1 for i in range(LANES)]
    total = [x + y + c for x, y, c in zip(a, b, carried, strict=True)]
    rest = [x - y - c for x, y, c in zip(a, b, carried, strict=True)]
    masked = [value & 0xFFFFFFFF for value in total]
    np.testing.assert_array_equal(apply("chain.add.u32", words(a), words(b), flag), words(masked))
    assert apply("chain.carry.u32", words(a), words(b), flag)[0] == sum(
        (value >> 32) << i for i, value in enumerate(total)
    )
    assert apply("chain.borrow.u32", words(a), words(b), flag)[0] == sum(
        (value < 0) << i for i, value in enumerate(rest)
    )
