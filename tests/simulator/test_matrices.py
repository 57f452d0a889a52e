"""Tensor-core instructions against products of whole matrices, with fragments laid out as the PTX ISA says."""

import ml_dtypes
import numpy as np
import pytest

from astra_kernels.simulator import FaultKind, UnsupportedPtx
from tests.simulator.handwritten import lane_words, module_of, per_lane, run, words

DTYPES = {
    "f16": np.float16,
    "bf16": ml_dtypes.bfloat16,
    "tf32": np.float32,
    "s8": np.int8,
    "u8": np.uint8,
    "e4m3": ml_dtypes.float8_e4m3fn,
    "e5m2": ml_dtypes.float8_e5m2,
    "f32": np.float32,
    "s32": np.int32,
    "f64": np.float64,
}


def fragment_of_a(matrix):
    """Registers of A by lane, from the formulas of the ISA's figures for m16n8k*: (registers, 32) words."""
    rows, depth = matrix.shape
    per = max(1, 4 // matrix.itemsize)
    count = rows * depth // 32 // per
    out = np.zeros((count, 32, per), matrix.dtype)
    for lane in range(32):
        group, member = lane // 4, lane % 4
        for element in range(count * per):
            register, part = divmod(element, per)
            row = group + (8 if rows == 16 and register % 2 else 0)
            step = register // 2 if rows == 16 else register
            out[register, lane, part] = matrix[row, member * per + part + 4 * per * step]
    return out.view(np.uint32).reshape(count, 32)


def fragment_of_b(matrix):
    depth, columns = matrix.shape
    assert columns == 8
    per = max(1, 4 // matrix.itemsize)
    count = depth * 8 // 32 // per
    out = np.zeros((count, 32, per), matrix.dtype)
    for lane in range(32):
        for register in range(count):
            for part in range(per):
                k = (lane % 4) * per + part + 4 * per * register
                out[register, lane, part] = matrix[k, lane // 4]
    return out.view(np.uint32).reshape(count, 32)


def fragment_of_c(matrix):
    rows = matrix.shape[0]
    per = 4 // matrix.itemsize
    flat = np.zeros((32, rows // 4), matrix.dtype)
    for lane in range(32):
        for element in range(rows // 4):
            flat[lane, element] = matrix[
                lane // 4 + 8 * (element // 2), (lane % 4) * 2 + element % 2
            ]
    return flat.reshape(32, -1, per).view(np.uint32).reshape(32, -1).T.copy()


def matrix_of_c(registers, rows, dtype):
    flat = np.ascontiguousarray(registers.T).view(dtype)
    out = np.zeros((rows, 8), dtype)
    for lane in range(32):
        for element in range(rows // 4):
            out[lane // 4 + 8 * (element // 2), (lane % 4) * 2 + element % 2] = flat[lane, element]
    return out


def listed(prefix, start, count):
    return [f"%{prefix}{start + index}" for index in range(count)]


def multiply(opcode, a, b, c):
    """Run one mma; gives the result's matrix."""
    fragments = fragment_of_a(a), fragment_of_b(b), fragment_of_c(c)
    counts = [len(f) for f in fragments]
    sources = words(sum(counts), 32)
    sources[:] = np.concatenate(fragments)
    names = listed("r", 0, sum(counts))
    into = listed("r", 100, counts[2])
    groups, start = [into], 0
    for count in counts:
        groups.append(names[start : start + count])
        start += count
    operands = ", ".join("{" + ", ".join(group) + "}" for group in groups)
    text = module_of(
        lane_words("p1", names) + f"\n  {opcode} {operands};\n" + per_lane(*into), parameters=2
    )
    out = np.zeros((counts[2], 32), np.uint32)
    launch = run(text, out, sources)
    assert launch.fault is None, str(launch.fault)
    return matrix_of_c(out, c.shape[0], c.dtype)


CASES = [
    (16, 16, "f16", "f16", "f32"),
    (16, 16, "f16", "f16", "f16"),
    (16, 8, "f16", "f16", "f32"),
    (16, 8, "f16", "f16", "f16"),
    (16, 16, "bf16", "bf16", "f32"),
    (16, 8, "bf16", "bf16", "f32"),
    (16, 8, "tf32", "tf32", "f32"),
    (16, 4, "tf32", "tf32", "f32"),
    (16, 32, "e4m3", "e4m3", "f32"),
    (16, 32, "e5m2", "e4m3", "f32"),
    (16, 32, "s8", "s8", "s32"),
    (16, 32, "u8", "s8", "s32"),
    (16, 16, "s8", "u8", "s32"),
    (8, 16, "u8", "u8", "s32"),
]


def random_matrix(random, shape, name):
    if name in ("s8", "u8"):
        low, high = (-128, 128) if name == "s8" else (0, 256)
        return random.integers(low, high, shape).astype(DTYPES[name])
    if name == "s32":
        return random.integers(-(2**31), 2**31, shape).astype(np.int32)
    return random.standard_normal(shape).astype(np.float32).astype(DTYPES[name])


@pytest.mark.parametrize(("rows", "depth", "a", "b", "d"), CASES)
def test_products_of_matrices(rows, depth, a, b, d):
    random = np.random.default_rng(depth)
    left, right = random_matrix(random, (rows, depth), a), random_matrix(random, (depth, 8), b)
    start = random_matrix(random, (rows, 8), d)
    opcode = f"mma.sync.aligned.m{rows}n8k{depth}.row.col.{d}.{a}.{b}.{d}"
    got = multiply(opcode, left, right, start)
    if d == "s32":
        exact = left.astype(np.int64) @ right.astype(np.int64) + start
        np.testing.assert_array_equal(got, exact.astype(np.int32))  # wraps
        return
    if a == "tf32":  # the unit sees the upper 19 bits
        left, right = ((m.view(np.uint32) & 0xFFFFE000).view(np.float32) for m in (left, right))
    exact = left.astype(np.longdouble) @ right.astype(np.longdouble) + start.astype(np.longdouble)
    np.testing.assert_array_equal(got, exact.astype(DTYPES[d]))


def test_saturating_sums_of_integers():
    ones = np.full((16, 32), 127, np.int8)
    start = np.full((16, 8), 2**31 - 5, np.int32)
    opcode = "mma.sync.aligned.m16n8k32.row.col.satfinite.s32.s8.s8.s32"
    assert np.all(multiply(opcode, ones, ones[:8].T.copy(), start) == 2**31 - 1)
    assert np.all(multiply(opcode, -ones, ones[:8].T.copy(), -start) == -(2**31))


def test_a_product_of_infinities_and_nan():
    a = np.zeros((16, 16), np.float16)
    b = np.ones((16, 8), np.float16)
    a[0, 0], a[1, 0], a[1, 1], a[2, 3] = np.inf, np.inf, -np.inf, np.nan
    opcode = "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32"
    got = multiply(opcode, a, b, np.zeros((16, 8), np.float32))
    assert np.all(np.isposinf(got[0]))
    assert np.all(np.isnan(got[1:3]))
    assert np.all(got[3:] == 0)


@pytest.mark.parametrize(("rows", "depth"), [(8, 4), (16, 4), (16, 8), (16, 16)])
def test_products_in_double_precision(rows, depth):
    random = np.random.default_rng(rows + depth)
    a, b, c = (random.standard_normal(s) for s in ((rows, depth), (depth, 8), (rows, 8)))
    counts = [rows // 4, rows * depth // 32, 8 * depth // 32]
    flat = [np.zeros((n, 32)) for n in (counts[1], counts[2], counts[0])]
    for lane in range(32):
        group, member = lane // 4, lane % 4
        for i in range(counts[1]):
            row, step = (group + 8 * (i % 2), i // 2) if rows == 16 else (group, i)
            flat[0][i, lane] = a[row, member + 4 * step]
        for i in range(counts[2]):
            flat[1][i, lane] = b[member + 4 * i, group]
        for i in range(counts[0]):
            flat[2][i, lane] = c[group + 8 * (i // 2), 2 * member + i % 2]
    sources = np.concatenate(flat)
    lines = ["ld.param.u64 %rd1, [p1];", "mov.u32 %r1, %laneid;", "mul.wide.u32 %rd2, %r1, 8;"]
    lines += ["add.s64 %rd3, %rd1, %rd2;", "ld.param.u64 %rd4, [p0];", "add.s64 %rd5, %rd4, %rd2;"]
    lines += [f"ld.global.f64 %fd{i}, [%rd3+{256 * i}];" for i in range(len(sources))]
    names, start, groups = listed("fd", 0, len(sources)), 0, [listed("fd", 40, counts[0])]
    for count in (counts[1], counts[2], counts[0]):
        groups.append(names[start : start + count])
        start += count
    operands = ", ".join("{" + ", ".join(group) + "}" for group in groups)
    lines.append(f"mma.sync.aligned.m{rows}n8k{depth}.row.col.f64.f64.f64.f64 {operands};")
    lines += [f"st.global.f64 [%rd5+{256 * i}], %fd{40 + i};" for i in range(counts[0])]
    out = np.zeros((counts[0], 32))
    assert run(module_of("\n".join(lines), 2), out, sources).fault is None
    exact = a @ b + c
    for lane in range(32):
        for i in range(counts[0]):
            expected = exact[lane // 4 + 8 * (i // 2), 2 * (lane % 4) + i % 2]
            np.testing.assert_allclose(out[i, lane], expected, rtol=1e-13, atol=1e-13)


def rows_of_shared(count, body):
    """Text that fills shared memory from p1, points %r99 at each lane's row, and goes on with `body`."""
    return (
        lane_words("p1", listed("r", 0, count))
        + "\n  mov.u32 %r90, tile;\n  mov.u32 %r91, %laneid;\n  shl.b32 %r92, %r91, 2;\n"
        + "  add.u32 %r93, %r90, %r92;\n"
        + "\n".join(f"  st.shared.b32 [%r93+{128 * i}], %r{i};" for i in range(count))
        + "\n  bar.sync 0;\n  shl.b32 %r94, %r91, 4;\n  add.u32 %r99, %r90, %r94;\n"
        + body
    )


TILE = "  .shared .align 16 .b8 tile[512];"


@pytest.mark.parametrize("count", [1, 2, 4])
@pytest.mark.parametrize("transposed", ["", ".trans"])
def test_loads_of_matrices(count, transposed):
    source = words(4, 32)
    into = listed("r", 100, count)
    load = f"  ldmatrix.sync.aligned.m8n8.x{count}{transposed}.shared.b16 {{{', '.join(into)}}}, [%r99];"
    text = module_of(rows_of_shared(4, load + "\n" + per_lane(*into)), 2, TILE)
    out = np.zeros((count, 32), np.uint32)
    assert run(text, out, source).fault is None
    halves = source[:4].reshape(-1).view(np.uint16).reshape(4, 8, 8)
    for index in range(count):
        matrix = halves[index].T if transposed else halves[index]
        expected = np.ascontiguousarray(matrix).view(np.uint32).reshape(32)
        np.testing.assert_array_equal(out[index], expected)


@pytest.mark.parametrize("count", [1, 2, 4])
@pytest.mark.parametrize("transposed", ["", ".trans"])
def test_stores_of_matrices(count, transposed):
    source = words(4, 32)
    names = listed("r", 100, count)
    body = lane_words("p2", names)
    body += f"\n  stmatrix.sync.aligned.m8n8.x{count}{transposed}.shared.b16 [%r99], {{{', '.join(names)}}};"
    body += "\n  bar.sync 0;\n" + "\n".join(
        f"  ld.shared.b32 %r{120 + i}, [%r93+{128 * i}];" for i in range(4)
    )
    text = module_of(rows_of_shared(4, body + "\n" + per_lane(*listed("r", 120, 4))), 3, TILE)
    out, data = np.zeros((4, 32), np.uint32), words(count, 32, seed=1)
    assert run(text, out, source, data).fault is None
    halves = data.reshape(-1).view(np.uint16).reshape(count, 8, 8)
    expected = source[:4].copy()
    for index in range(count):
        matrix = halves[index].T if transposed else halves[index]
        expected[index] = np.ascontiguousarray(matrix).view(np.uint32).reshape(32)
    np.testing.assert_array_equal(out, expected)


def test_a_matrix_transposed_between_lanes():
    source, out = words(1, 32), np.zeros((1, 32), np.uint32)
    move = "\n  movmatrix.sync.aligned.m8n8.trans.b16 %r1, %r0;\n"
    assert (
        run(module_of(lane_words("p1", ["%r0"]) + move + per_lane("%r1"), 2), out, source).fault
        is None
    )
    expected = np.ascontiguousarray(source.view(np.uint16).reshape(8, 8).T).view(np.uint32)
    np.testing.assert_array_equal(out[0], expected.reshape(32))


def test_a_row_outside_of_shared_memory_is_a_fault():
    load = "  add.u32 %r99, %r99, 16;\n  ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%r1,%r2,%r3,%r4}, [%r99];"
    launch = run(module_of(rows_of_shared(4, load), 2, TILE), np.zeros(32, np.uint32), words(4, 32))
    assert launch.fault.kind == FaultKind.SHARED_BOUNDS
    assert launch.fault.thread == (31, 0, 0)


def test_a_product_needs_the_whole_warp():
    body = (
        "  mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 "
        "{%r0,%r1,%r2,%r3}, {%r4,%r5}, {%r6}, {%r0,%r1,%r2,%r3};"
    )
    launch = run(module_of(body), np.zeros(1, np.uint32), threads=24)
    assert launch.fault.kind == FaultKind.SYNC_MASK
    assert "0x00ffffff" in str(launch.fault)


@pytest.mark.parametrize(
    "opcode",
    [
        "mma.sync.aligned.m8n8k4.row.col.f32.f16.f16.f32",
        "mma.sync.aligned.m16n8k32.row.col.f16.f16.f16.f16",
        "mma.sync.aligned.m16n8k16.row.col.f32.f16.bf16.f32",
        "mma.sync.aligned.m16n8k64.row.col.s32.s4.s4.s32",
        "mma.sync.aligned.m16n8k128.row.col.s32.b1.b1.s32.xor.popc",
        "mma.sp.sync.aligned.m16n8k32.row.col.f32.f16.f16.f32",
        "mma.sync.aligned.m16n8k16.col.row.f32.f16.f16.f32",
        "mma.sync.aligned.m16n8k16.row.col.satfinite.f32.f16.f16.f32",
        "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16",
        "ldmatrix.sync.aligned.m8n16.x4.shared.b8x16.b4x16_p64",
    ],
)
def test_other_products_are_refused_by_name(opcode):
    body = f"  {opcode} {{%r0,%r1,%r2,%r3}}, {{%r4,%r5,%r6,%r7}}, {{%r8,%r9}}, {{%r0,%r1,%r2,%r3}};"
    with pytest.raises(UnsupportedPtx, match=opcode.split(".")[0]):
        run(module_of(body), np.zeros(1, np.uint32))
