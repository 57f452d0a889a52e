"""Operations beyond plain arithmetic, each against Python integers, fractions, NumPy or ml_dtypes."""

import math
from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.simulator.handwritten import lane_words, module_of, per_lane, run
from tests.simulator.test_operations import LANES, U32, apply, lanes, signed, words


def byte(value, index, is_signed):
    value = value >> (8 * index) & 0xFF
    return signed(value, 8) if is_signed else value


def half(value, index, is_signed):
    value = value >> (16 * index) & 0xFFFF
    return signed(value, 16) if is_signed else value


def both(value, is_signed):
    return [half(value, index, is_signed) for index in range(2)]


def packed(low, high):
    return (low & 0xFFFF) | (high & 0xFFFF) << 16


BINARY = {
    f"{name}.{kind}16x2": lambda a, b, f=f, s=kind == "s": packed(
        *(f(x, y) for x, y in zip(both(a, s), both(b, s), strict=True))
    )
    for name, f in {"add": lambda x, y: x + y, "min": min, "max": max}.items()
    for kind in "us"
}
for spelling in ("relu.s16x2", "s16x2.relu"):
    for name, f in {"min": min, "max": max}.items():
        BINARY[f"{name}.{spelling}"] = lambda a, b, f=f: packed(
            *(max(f(x, y), 0) for x, y in zip(both(a, True), both(b, True), strict=True))
        )
for spelling in ("relu.s32", "s32.relu"):
    for name, f in {"min": min, "max": max}.items():
        BINARY[f"{name}.{spelling}"] = lambda a, b, f=f: max(f(signed(a), signed(b)), 0)


def mask_of(position, length, wrap):
    if wrap:
        position, length = position % 32, length % 32
    return ((1 << min(length, 64)) - 1) << min(position, 64)


def extended(a, n, is_signed, wrap):
    n = n % 32 if wrap else n
    if n == 0 or n >= 32:
        return a if n else 0
    kept = a % (1 << n)
    return signed(kept, n) if is_signed else kept


for mode in ("clamp", "wrap"):
    BINARY[f"bmsk.{mode}.b32"] = lambda a, b, w=mode == "wrap": mask_of(a, b, w)
    for kind in "us":
        BINARY[f"szext.{mode}.{kind}32"] = (
            lambda a, b, s=kind == "s", w=mode == "wrap": extended(a, b, s, w)
        )


@pytest.mark.parametrize("name", BINARY)
@settings(max_examples=20, deadline=None)
@given(a=lanes, b=lanes, small=st.booleans())
def test_two_operands(name, a, b, small):
    if small:
        a, b = ([value % 70 for value in values] for values in (a, b))
    expected = [BINARY[name](x, y) & 0xFFFFFFFF for x, y in zip(a, b, strict=True)]
    np.testing.assert_array_equal(apply(name, words(a), words(b)), words(expected))


def dot2(a, b, c, upper, signs):
    first = 2 if upper else 0
    return c + sum(half(a, i, signs[0]) * byte(b, first + i, signs[1]) for i in range(2))


def distances(a, b, is_signed):
    return [abs(byte(a, i, is_signed) - byte(b, i, is_signed)) for i in range(4)]


def nth_set_bit(mask, base, offset):
    n, base = signed(offset), base
    if n == 0:
        return base if mask >> base & 1 else -1
    order = range(base, 32) if n > 0 else range(base, -1, -1)
    found = [bit for bit in order if mask >> bit & 1]
    return found[abs(n) - 1] if len(found) >= abs(n) else -1


def permuted(a, b, selector, mode):
    data, s = (a | b << 32).to_bytes(8, "little"), selector & 3
    picks = {
        "f4e": [s, s + 1, s + 2, s + 3],
        "b4e": [s, (s - 1) % 8, (s - 2) % 8, (s - 3) % 8],
        "rc8": [s] * 4,
        "ecl": [max(i, s) for i in range(4)],
        "ecr": [min(i, s) for i in range(4)],
        "rc16": [0, 1, 0, 1] if s % 2 == 0 else [2, 3, 2, 3],
    }[mode]
    return int.from_bytes(bytes(data[pick] for pick in picks), "little")


TERNARY = {
    f"dp2a.{'hi' if upper else 'lo'}.{ka}32.{kb}32": lambda a,
    b,
    c,
    u=upper,
    s=(
        ka == "s",
        kb == "s",
    ): dot2(a, b, c, u, s)
    for upper in (False, True)
    for ka in "us"
    for kb in "us"
}
for kind in "us":
    TERNARY[f"vabsdiff4.u32.{kind}32.{kind}32"] = lambda a, b, c, s=kind == "s": int.from_bytes(
        bytes(distances(a, b, s)), "little"
    )
    TERNARY[f"vabsdiff4.u32.{kind}32.{kind}32.add"] = lambda a, b, c, s=kind == "s": c + sum(
        distances(a, b, s)
    )
for mode in ("f4e", "b4e", "rc8", "ecl", "ecr", "rc16"):
    TERNARY[f"prmt.b32.{mode}"] = lambda a, b, c, m=mode: permuted(a, b, c, m)


@pytest.mark.parametrize("name", TERNARY)
@settings(max_examples=20, deadline=None)
@given(a=lanes, b=lanes, c=lanes)
def test_three_operands(name, a, b, c):
    expected = [TERNARY[name](*values) & 0xFFFFFFFF for values in zip(a, b, c, strict=True)]
    np.testing.assert_array_equal(apply(name, words(a), words(b), words(c)), words(expected))


@settings(max_examples=30, deadline=None)
@given(mask=lanes, base=st.integers(0, 31), offset=st.integers(-33, 33))
def test_the_nth_set_bit(mask, base, offset):
    expected = [nth_set_bit(value, base, offset) & 0xFFFFFFFF for value in mask]
    got = apply("fns.b32", words(mask), words([base] * LANES), words([offset & 0xFFFFFFFF] * LANES))
    np.testing.assert_array_equal(got, words(expected))


# ---- rounding in a direction to 16 bits, against exact fractions --------------------------------

FORMATS = {"f16": np.float16, "bf16": ml_dtypes.bfloat16}


def all_values(dtype):
    with np.errstate(invalid="ignore"):  # among them are signalling NaNs
        values = np.arange(2**16, dtype=np.uint16).view(dtype).astype(np.float64)
    return np.unique(values[np.isfinite(values)])


VALUES = {name: all_values(dtype) for name, dtype in FORMATS.items()}


def toward(name, exact, mode):
    """The value of a 16-bit format next to an exact number in a direction, by search among all of them."""
    values = VALUES[name]
    if mode == "rz":
        mode = "rm" if exact > 0 else "rp"
    near = int(np.searchsorted(values, float(exact)))
    nearby = [Fraction(float(v)) for v in values[max(near - 2, 0) : near + 3]]
    if mode == "rm":
        return float(max((v for v in nearby if v <= exact), default=-math.inf))
    return float(min((v for v in nearby if v >= exact), default=math.inf))


def bits_of(name, values):
    with np.errstate(over="ignore"):
        return np.array(values, np.float64).astype(np.float32).astype(FORMATS[name]).view(np.uint16)


def check_direction(name, mode, exact, got):
    """Compare one row; which zero it is follows from the sign of what was rounded."""
    expected = bits_of(name, [toward(name, value, mode) for value in exact])
    zeros = expected & 0x7FFF == 0
    signs = np.array([value < 0 for value in exact])
    nonzero = np.array([value != 0 for value in exact])
    np.testing.assert_array_equal(got[~zeros], expected[~zeros])
    np.testing.assert_array_equal(got[zeros] & 0x7FFF, 0)
    np.testing.assert_array_equal(got[zeros & nonzero] >> 15, signs[zeros & nonzero])


@pytest.mark.parametrize("mode", ["rm", "rp", "rz"])
@pytest.mark.parametrize("name", FORMATS)
def test_floats_rounded_in_a_direction(name, mode):
    random = np.random.default_rng(5)
    values = random.choice(VALUES[name], 20 * LANES).astype(np.float32)
    edges = np.array([1e30, -1e30, 1e-30, -1e-30, 65504, 65520, -65520, 3e38], np.float32)
    near = [values, *(np.nextafter(values, np.float32(s)) for s in (-np.inf, np.inf))]
    for row in np.concatenate([*near, np.resize(edges, LANES)]).reshape(-1, LANES):
        exact = [Fraction(float(value)) for value in row]
        check_direction(name, mode, exact, apply(f"cvt.{mode}.{name}.f32", row))
        check_direction(name, mode, exact, apply(f"cvt.{mode}.{name}.f64", row.astype(np.float64)))


@pytest.mark.parametrize("mode", ["rm", "rp", "rz"])
@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("kind", ["u32", "s32", "u64", "s64"])
def test_integers_rounded_in_a_direction(name, mode, kind):
    random, size = np.random.default_rng(6), int(kind[1:])
    dtype = np.dtype(f"{kind[0].replace('s', 'i')}{size // 8}")
    whole = random.integers(0, 2**size, (20, LANES), dtype=f"u{size // 8}").view(dtype)
    for row in whole >> random.integers(0, size, whole.shape).astype(dtype):
        stored = row.view(f"u{size // 8}")
        got = apply(f"cvt.{mode}.{name}.{kind}", stored)
        check_direction(name, mode, [Fraction(int(value)) for value in row], got)


@pytest.mark.parametrize("name", ["f16", "bf16"])
def test_extremes_of_magnitudes_with_the_sign_of_the_product(name):
    random = np.random.default_rng(3)
    a, b = (random.integers(0, 2**16, 2048).astype(np.uint16).view(FORMATS[name]) for _ in range(2))
    with np.errstate(invalid="ignore"):
        wide_a, wide_b = a.astype(np.float64), b.astype(np.float64)
    negative = np.signbit(wide_a) != np.signbit(wide_b)
    for op, choose in {"min": np.fmin, "max": np.fmax}.items():
        magnitude = choose(np.abs(wide_a), np.abs(wide_b))
        expected = np.where(negative, -magnitude, magnitude)
        for start in range(0, 2048, LANES):
            here = slice(start, start + LANES)
            x, y = (v[here].view(np.uint16).astype(np.uint32) for v in (a, b))
            got = apply(f"{op}.xorsign.abs.{name}", x, y).astype(np.uint16).view(FORMATS[name])
            with np.errstate(invalid="ignore"):
                np.testing.assert_array_equal(got.astype(np.float64), expected[here])


@settings(max_examples=30, deadline=None)
@given(bits=lanes)
def test_classes_of_floats(bits):
    values = words(bits).view(np.float32)
    tiny = np.abs(values) < np.finfo(np.float32).tiny
    expected = {
        "finite": np.isfinite(values),
        "infinite": np.isinf(values),
        "notanumber": np.isnan(values),
        "number": ~np.isnan(values),
        "normal": np.isfinite(values) & ~tiny,
        "subnormal": tiny & (values != 0),
    }
    for name, holds in expected.items():
        got = apply(f"testp.{name}.f32", values)[0]
        assert got == sum(1 << i for i, yes in enumerate(holds) if yes), name


# ---- instructions that become several operations ------------------------------------------------


def lane_results(instructions, sources, count=1, declarations=""):
    """Run text on %r0, %r1, ... of each lane; gives what it left in %r100, %r101, ..."""
    data = np.array(sources, np.uint32)
    names = [f"%r{i}" for i in range(len(data))]
    results = [f"%r{100 + i}" for i in range(count)]
    body = lane_words("p1", names) + "\n" + instructions + "\n" + per_lane(*results)
    out = np.zeros((count, LANES), np.uint32)
    launch = run(module_of(body, 2, declarations), out, data)
    assert launch.fault is None, str(launch.fault)
    return out


@settings(max_examples=20, deadline=None)
@given(a=lanes, b=lanes, c=lanes)
def test_comparisons_into_numbers_and_selections_by_sign(a, b, c):
    got = lane_results(
        "set.lt.u32.s32 %r100, %r0, %r1;\n set.ge.f32.u32 %r101, %r0, %r1;\n"
        "slct.b32.s32 %r102, %r0, %r1, %r2;\n setp.gt.u32 %p1, %r2, 1000;\n"
        "set.eq.and.s32.u32 %r103, %r0, %r0, %p1;",
        [a, b, c],
        4,
    )
    x, y, z = np.array(a, np.uint32), np.array(b, np.uint32), np.array(c, np.uint32)
    np.testing.assert_array_equal(got[0] != 0, x.view(np.int32) < y.view(np.int32))
    assert set(got[0].tolist()) <= {0, 0xFFFFFFFF}
    np.testing.assert_array_equal(got[1].view(np.float32), (x >= y).astype(np.float32))
    np.testing.assert_array_equal(got[2], np.where(z.view(np.int32) >= 0, x, y))
    np.testing.assert_array_equal(got[3] != 0, z > 1000)


@pytest.mark.parametrize("count", [2, 4])
def test_vectors_of_atomics(count):
    items = ", ".join(f"%r{i}" for i in range(count))
    results = ", ".join(f"%r{100 + i}" for i in range(count))
    stride = 4 * count
    place = f"ld.param.u64 %rd1, [p2];\n mul.wide.u32 %rd2, %r251, {stride};\n add.s64 %rd3, %rd1, %rd2;"
    data = np.random.default_rng(0).standard_normal((count, LANES)).astype(np.float32)
    memory = np.random.default_rng(1).standard_normal((LANES, count)).astype(np.float32)
    before, out = memory.copy(), np.zeros((count, LANES), np.uint32)
    body = lane_words("p1", [f"%r{i}" for i in range(count)]) + "\n" + place
    body += f"\n atom.global.add.v{count}.f32 {{{results}}}, [%rd3], {{{items}}};\n"
    body += per_lane(*[f"%r{100 + i}" for i in range(count)])
    assert run(module_of(body, 3), out, data.view(np.uint32), memory).fault is None
    np.testing.assert_array_equal(out.view(np.float32), before.T)
    np.testing.assert_array_equal(memory, before + data.T)


@pytest.mark.parametrize(("kind", "dtype"), FORMATS.items())
def test_extremes_of_halves_in_memory(kind, dtype):
    random = np.random.default_rng(2)
    data = random.integers(0, 2**16, (4, 2 * LANES)).astype(np.uint16)
    memory = random.integers(0, 2**16, (LANES, 2, 2)).astype(np.uint16)
    before = memory.copy()
    place = "ld.param.u64 %rd1, [p1];\n mul.wide.u32 %rd2, %r251, 8;\n add.s64 %rd3, %rd1, %rd2;"
    body = lane_words("p0", ["%r0", "%r1"]) + "\n" + place
    body += f"\n red.global.max.noftz.v2.{kind}x2 [%rd3], {{%r0, %r1}};"
    assert run(module_of(body, 2), data.view(np.uint32), memory).fault is None
    given_values = data[:2].reshape(2, LANES, 2).transpose(1, 0, 2).copy().view(dtype)
    with np.errstate(invalid="ignore"):
        expected = np.fmax(before.view(dtype).astype(np.float64), given_values.astype(np.float64))
        got = memory.view(dtype).astype(np.float64)
    np.testing.assert_array_equal(got, expected)


@settings(max_examples=30, deadline=None)
@given(value=U32)
def test_bytes_of_a_16_bit_register(value):
    body = (
        "cvt.u16.u32 %rs1, %r0;\n mov.b16 {%rs2, %rs3}, %rs1;\n"
        "cvt.u32.u16 %r100, %rs2;\n cvt.u32.u16 %r101, %rs3;"
    )
    declarations = ".reg .b8 %unused;"
    got = lane_results(body, [[value] * LANES], 2, declarations)
    assert got[:, 0].tolist() == [value & 0xFF, value >> 8 & 0xFF]


def test_special_registers():
    names = (
        "%smid", "%nsmid", "%nwarpid", "%gridid", "%dynamic_smem_size", "%total_smem_size",
        "%cluster_ctarank", "%cluster_nctarank", "%clusterid.x", "%nclusterid.x", "%cluster_nctaid.x",
        "%globaltimer_hi", "%clock_hi",
    )  # fmt: skip
    lines = "\n".join(f"mov.u32 %r{100 + i}, {name};" for i, name in enumerate(names))
    out = np.zeros((len(names), LANES), np.uint32)
    text = module_of(lines + "\n" + per_lane(*[f"%r{100 + i}" for i in range(len(names))]))
    assert run(text, out, blocks=3, shared=512).fault is None
    assert out[:, 0].tolist() == [2, 132, 64, 0, 512, 512, 0, 1, 2, 3, 1, 0, 0]
