"""What moves out of loops, how far, and what must stay because a value or a fault could differ."""

import pytest
from small_programs import host, refusal, text

from astra_kernels.agents.rewrites import (
    Applied,
    HoistInvariants,
    ParameterPoint,
    Program,
)

REWRITE = HoistInvariants()
ALL = "div+call+load"
LOOP = "for (int i = threadIdx.x; i < n; i += blockDim.x)"


def plain(body: str, *, head: str = "", pointer: str = "const float* __restrict__") -> Program:
    """A program whose only kernel has this body; `a`, `b` are floats, `m` is another input."""
    kernel = f"""__global__ void kernel(float* __restrict__ out, {pointer} in, {pointer} m,
                       float a, float b, int n) {{
  {body}
}}"""
    return host(kernel, "kernel<<<rows, 256, 0, stream>>>(out, in, in, 1.f, 2.f, n);", head=head)


@pytest.mark.parametrize(
    ("body", "declaration", "rest"),
    [
        (f"{LOOP} {{ out[i] = in[i] * (a / b); }}", "const auto V = a / b;", "in[i] * (V)"),
        (
            f"{LOOP} {{ out[i] = in[i] * rsqrtf(a + b); }}",
            "const auto V = rsqrtf(a + b);",
            "in[i] * V",
        ),
        (
            f"{LOOP} {{ out[i] = expf(sqrtf(a) / b) + in[i]; }}",
            "const auto V = expf(sqrtf(a) / b);",
            "= V + in[i]",
        ),
        (f"const float c = a; {LOOP} {{ out[i] = 1.0f / c; }}", "const auto V = 1.0f / c;", "= V;"),
        (f"{LOOP} {{ out[i] = a / (float)n; }}", "const auto V = a / (float)n;", "= V;"),
        (
            f"{LOOP} {{ out[i] = m[blockIdx.x]; }}",
            "const float V = (static_cast<int>(threadIdx.x) < n) ? m[blockIdx.x] : float();",
            "= V;",
        ),
        (
            f"{LOOP} {{ out[i] = *m + __ldg(&m[n]); }}",
            "const float V2 = (static_cast<int>(threadIdx.x) < n) ? __ldg(&m[n]) : float();",
            "= V + V2;",
        ),
        (
            "int i = 0; while (i < n) { out[i] = m[n]; ++i; }",
            "const float V = (i < n) ? m[n] : float();",
            "= V;",
        ),
        ("int i = 0; do { out[i] = m[n]; ++i; } while (i < n);", "const float V = m[n];", "= V;"),
        (f"{LOOP} {{ out[i] = a / b + a / b; }}", "const auto V = a / b;", "= V + V;"),
        (f"if (n > 3) {LOOP} out[i] = a / b;", "const auto V = a / b;", "out[i] = V;\n  }"),
        (f"#pragma unroll 2\n  {LOOP} out[i] = a / b;", "const auto V = a / b;\n  #pragma", "= V;"),
    ],
)
def test_it_stands_in_front_of_the_loop(body, declaration, rest):
    changed = text(plain(body), REWRITE, hoist=ALL)
    changed = changed.replace("invariant_2", "V2").replace("invariant_1", "V")
    assert declaration in changed
    assert rest in changed
    loops = [changed.index(word) for word in ("for (", "while (", "do {") if word in changed]
    assert changed.index(declaration) < min(loops)


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (f"{LOOP} out[i] = in[i] / b;", "no loop computes"),
        (f"{LOOP} {{ out[i] = a / b; a += 1; }}", "no loop computes"),
        (f"{LOOP} {{ float c = in[i]; out[i] = a / c; }}", "no loop computes"),
        (f"{LOOP} out[i] = a / (float)i;", "no loop computes"),
        (f"{LOOP} out[i] = 1.0f / 3.0f;", "no loop computes"),
        (f"constexpr float third = 3.0f; {LOOP} out[i] = 1.0f / third;", "no loop computes"),
        (f"{LOOP} out[i] = n / (n - 1);", "no loop computes"),
        ("out[n] = a / b;", "no loop computes"),
        (f"{LOOP} {{ if (in[i] > 0) out[i] = a / b; }}", "no loop computes"),
        (f"{LOOP} {{ out[i] = in[i] > 0 && a / b > 1; }}", "no loop computes"),
        (
            f"float c = a; float* p = &c; {LOOP} {{ *p = in[i]; out[i] = a / c; }}",
            "no loop computes",
        ),
        (f"float c = a; float& r = c; {LOOP} {{ r = in[i]; out[i] = a / c; }}", "no loop computes"),
        (f"float c = a; {LOOP} {{ bump(c); out[i] = a / c; }}", "no loop computes"),
        (f"float c = a; {LOOP} {{ STEP(c); out[i] = a / c; }}", "no loop computes"),
        (
            f'float c = a; {LOOP} {{ asm volatile("" : "+f"(c)); out[i] = a / c; }}',
            "no loop computes",
        ),
        (f"__shared__ float s; {LOOP} {{ out[i] = a / s; __syncthreads(); }}", "no loop computes"),
        (f"float c[2]; {LOOP} {{ out[i] = a / c[1]; }}", "no loop computes"),
        (f"{LOOP} {{ out[i] = expf(curand(&n)); }}", "no loop computes"),
        (f"{LOOP} {{ out[i] = out[0]; }}", "writes through out"),
        (f"{LOOP} {{ if (in[i] > 0) out[i] = m[n]; }}", "no loop computes"),
        (f"{LOOP} {{ m += 1; out[i] = m[n]; }}", "no loop computes"),
        (f"{LOOP} {{ if (in[i] > 3) break; out[i] = m[n]; }}", "may leave before it loads"),
        ("for (int i = next(); i < n; ++i) out[i] = m[n];", "cannot be asked twice"),
        ("for (int i = 0; i < n && in[i] > 0; ++i) out[i] = m[n];", "cannot be asked twice"),
        (
            "for (int i = 0; i < n; ++i) { for (int j = 0; j < n; ++j) if (j > 2) out[j] = m[n]; }",
            "no loop computes",
        ),
    ],
)
def test_refused(body, reason):
    head = """#define STEP(x) (x += 1.0f)
__device__ void bump(float& x) { x += 1; }
__device__ int next() { return 0; }"""
    assert reason in refusal(plain(body, head=head), REWRITE, hoist=ALL).reason


def test_memory_that_another_pointer_may_write_is_loaded_again():
    program = plain(f"{LOOP} out[i] = m[n];", pointer="const float*")
    refused = refusal(program, REWRITE, hoist="load")
    assert "m is not __restrict__" in refused.reason
    assert refused.line


def test_a_computation_goes_as_far_out_as_it_can():
    body = f"for (int r = 0; r < n; ++r) {{ {LOOP} out[i] = in[i] * (a / b) * sqrtf(r * b); }}"
    changed = text(plain(body), REWRITE, hoist="div+call")
    assert changed.index("invariant_1 = a / b;") < changed.index("for (int r")
    assert changed.index("for (int r") < changed.index("invariant_2 = sqrtf(r * b);")
    assert changed.index("invariant_2 = sqrtf(r * b);") < changed.index(LOOP)


def test_a_load_leaves_its_own_loop_only():
    body = f"for (int r = 0; r < n; ++r) {{ {LOOP} out[i] = m[n]; }}"
    changed = text(plain(body), REWRITE, hoist="load")
    assert changed.index("for (int r") < changed.index("? m[n] : float();") < changed.index(LOOP)


def test_what_is_computed_from_a_load_follows_it():
    changed = text(plain(f"{LOOP} out[i] = rsqrtf(m[blockIdx.x] + a);"), REWRITE, hoist=ALL)
    assert "const auto invariant_2 = rsqrtf(invariant_1 + a);" in changed
    assert "out[i] = invariant_2;" in changed


def test_helpers_are_searched_too():
    head = "__device__ float act(float v, int n) { for (int i = 0; i < n; ++i) v *= 1.0f / v; return v; }"
    assert refusal(plain("out[n] = act(a, n);", head=head), REWRITE, hoist=ALL)
    head = head.replace("1.0f / v", "1.0f / (float)n")
    changed = text(plain("out[n] = act(a, n);", head=head), REWRITE, hoist=ALL)
    assert "v *= invariant_1" in changed


def test_names_that_are_taken_are_not_used_again():
    changed = text(plain(f"float invariant_1 = 3; {LOOP} out[i] = a / b;"), REWRITE, hoist="div")
    assert "const auto invariant_2 = a / b;" in changed


def test_applying_it_again_finds_nothing():
    program = plain(f"{LOOP} out[i] = in[i] * rsqrtf(m[blockIdx.x] + a) / (b / a);")
    once = REWRITE.apply(program, ParameterPoint.of(hoist=ALL))
    assert isinstance(once, Applied)
    assert refusal(program.with_sources(once.sources), REWRITE, hoist=ALL)


def test_points_are_programs_that_differ():
    points = REWRITE.parameters(plain(f"{LOOP} out[i] = m[n] * (a / b);"))
    assert [str(p) for p in points] == ["hoist=div+call+load", "hoist=div", "hoist=load"]
    assert REWRITE.parameters(plain("out[n] = 1;")) == ()


@pytest.mark.parametrize("hoist", ["", "nonsense", "div+"])
def test_an_impossible_point_is_refused(hoist):
    assert "no such" in refusal(plain(f"{LOOP} out[i] = a / b;"), REWRITE, hoist=hoist).reason
