"""Loops that are unrolled so that loads overlap, and loops where they could not."""

import pytest
from small_programs import device, host, refusal, text

from astra_kernels.agents.rewrites import (
    Applied,
    ParameterPoint,
    Program,
    Unroll,
    VectorWidth,
)

REWRITE = Unroll()
LOOP = "for (int i = threadIdx.x; i < n; i += blockDim.x)"


def plain(body: str, *, head: str = "", out: str = "float* __restrict__") -> Program:
    """A program whose only kernel has this body and pointers that do not overlap."""
    kernel = (
        f"__global__ void kernel({out} out, const float* __restrict__ in, int n) {{\n  {body}\n}}"
    )
    return host(kernel, "kernel<<<rows, 256, 0, stream>>>(out, in, n);", head=head)


@pytest.mark.parametrize(
    "loop",
    [
        f"{LOOP} out[i] = in[i];",
        f"{LOOP} {{ out[i] = __ldg(in + i); }}",
        "for (int i = 0; i < n; ++i) out[i] = in[i];",
        "for (int i = n; i >= 0; i--) out[i] = in[i];",
        "for (int i = n - 1; i > 0; i -= 32) out[i] = in[i];",
        "for (size_t i = threadIdx.x; i != n; i = i + 32) out[i] = in[i];",
        f"float x = 0; {LOOP} x += in[i];",
        f"{LOOP} {{ for (int j = 0; j < n; ++j) out[j] = 1; out[i] = in[i]; }}",
    ],
)
def test_a_loop_that_loads_is_unrolled(loop):
    changed = text(plain(loop), REWRITE, factor=4)
    assert "#pragma unroll 4\n" in changed
    assert changed.replace("#pragma unroll 4\n", "").split() == plain(loop).sources["k.cu"].split()


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (f"{LOOP} out[i] = in[i];", f"  #pragma unroll 2\n  {LOOP} out[i] = in[i];\n"),
        (
            f"if (n) {LOOP} out[i] = in[i];",
            f"if (n) {{\n#pragma unroll 2\n{LOOP} out[i] = in[i];\n}}",
        ),
        (f"#pragma unroll 1\n{LOOP} out[i] = in[i];", f"#pragma unroll 2\n{LOOP}"),
        (f"#pragma unroll(8)\n{LOOP} out[i] = in[i];", f"#pragma unroll(2)\n{LOOP}"),
    ],
)
def test_where_the_pragma_stands(before, after):
    assert after in text(plain(before), REWRITE, factor=2)


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (f"{LOOP} out[i] = out[i + n];", "may load what this one stores through out"),
        (f"{LOOP} {{ out[i] = in[i]; __syncthreads(); }}", "no load may move across"),
        (f"{LOOP} {{ out[i] = __shfl_xor_sync(~0u, in[i], 1); }}", "no load may move across"),
        (f'{LOOP} {{ asm volatile("membar.gl;"); out[i] = in[i]; }}', "no load may move across"),
        (f"{LOOP} out[i] = 1;", "no counted loop that loads"),
        ("out[n] = in[n];", "no counted loop that loads"),
        ("for (int j = 0; j < 8; ++j) out[j] = in[j];", "constant length"),
        ("constexpr int m = 8; for (int j = 0; j < m; ++j) out[j] = in[j];", "constant length"),
        (f"{LOOP} {{ out[i] = in[i]; if (in[i] > 0) i += 2; }}", "does not count"),
        ("for (int i = 1; i < n; i *= 2) out[i] = in[i];", "does not count"),
        ("for (;;) out[n] = in[n];", "does not count"),
        (f"#pragma unroll\n{LOOP} out[i] = in[i];", "unrolled already, whole"),
        (f"#pragma unroll kTimes\n{LOOP} out[i] = in[i];", "unrolled already, kTimes"),
        (f"#pragma unroll 4\n{LOOP} out[i] = in[i];", "unrolled already, 4 times"),
        (f"{LOOP} fill(out, in[i]);", None),
    ],
)
def test_refused(body, reason):
    head = "constexpr int kTimes = 4; __device__ void fill(float* p, float x) { *p = x; }"
    program = plain(body, head=head)
    if reason is None:  # both pointers are __restrict__: what `fill` stores is not what is loaded
        assert "#pragma unroll 4" in text(program, REWRITE, factor=4)
    else:
        assert reason in refusal(program, REWRITE, factor=4).reason


def test_stores_that_may_overlap_what_is_loaded():
    assert (
        "stores through out" in refusal(device(f"{LOOP} out[i] = in[i];"), REWRITE, factor=4).reason
    )
    kernel = plain(f"{LOOP} out[i] = in[i];", out="float*")  # one restrict pointer is enough
    assert "#pragma unroll 4" in text(kernel, REWRITE, factor=4)


def test_only_the_inner_loop_that_loads_is_unrolled():
    body = f"for (int r = 0; r < n; ++r) {{ {LOOP} out[i] = in[r * n + i]; }}"
    changed = text(plain(body), REWRITE, factor=4)
    assert changed.count("#pragma unroll 4") == 1
    assert f"#pragma unroll 4\n{LOOP}" in changed


def test_a_vector_loop_and_its_tail_are_unrolled():
    wide = VectorWidth().apply(
        plain(f"{LOOP} out[i] = in[i];"), ParameterPoint.of(bytes=16, unroll=1)
    )
    assert isinstance(wide, Applied)
    changed = text(plain("").with_sources(wide.sources), REWRITE, factor=4)
    assert "#pragma unroll 4\n    for (int i_first = " in changed


def test_applying_it_again_finds_nothing_and_another_factor_replaces_it():
    program = plain(f"{LOOP} out[i] = in[i];")
    once = REWRITE.apply(program, ParameterPoint.of(factor=4))
    assert isinstance(once, Applied)
    again = program.with_sources(once.sources)
    assert "4 times" in refusal(again, REWRITE, factor=4).reason
    changed = text(again, REWRITE, factor=8)
    assert "#pragma unroll 8" in changed
    assert changed.count("#pragma") == 1


def test_points():
    points = REWRITE.parameters(plain(f"{LOOP} out[i] = in[i];"))
    assert [str(point) for point in points] == ["factor=4", "factor=2", "factor=8"]
    assert REWRITE.parameters(plain("out[n] = 1;")) == ()


@pytest.mark.parametrize("point", [{"factor": 3}, {}, {"factor": "whole"}])
def test_an_impossible_point_is_refused(point):
    assert "no such" in refusal(plain(f"{LOOP} out[i] = in[i];"), REWRITE, **point).reason
