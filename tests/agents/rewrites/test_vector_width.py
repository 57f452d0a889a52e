"""The vector loop in front of a loop, what it must not touch, and constants that set a width."""

import pytest
from small_programs import device, host, refusal, text

from astra_kernels.agents.rewrites import Applied, ParameterPoint, Program, VectorWidth

REWRITE = VectorWidth()
LOOP = "for (int i = threadIdx.x; i < n; i += blockDim.x)"


def test_the_original_loop_stays_as_tail_and_fallback():
    changed = text(device(f"{LOOP} out[blockIdx.x * n + i] = in[i] * a;"), REWRITE, bytes=16)
    assert (
        """\
  constexpr int i_lanes = AstraLanes<16, sizeof(*out), sizeof(*in)>::value;
  int i_done = 0;  // elements before this one move as vectors
  if (astra_is_aligned<i_lanes>(out + blockIdx.x * n) &&
      astra_is_aligned<i_lanes>(in)) {
    i_done = n / i_lanes * i_lanes;
    for (int i_first = threadIdx.x * i_lanes; i_first < i_done; i_first += blockDim.x * i_lanes) {
      auto out_vector = astra_like<i_lanes>(out + blockIdx.x * n + i_first);
      const auto in_vector = astra_load<i_lanes>(in + i_first);
#pragma unroll
      for (int i_lane = 0; i_lane < i_lanes; ++i_lane) {
        out_vector.lane[i_lane] = in_vector.lane[i_lane] * a;
      }
      astra_store(out + blockIdx.x * n + i_first, out_vector);
    }
  }
  for (int i = i_done + threadIdx.x; i < n; i += blockDim.x) out[blockIdx.x * n + i] = in[i] * a;
"""
        in changed
    )


def test_vectors_in_flight_are_loaded_before_any_is_used():
    changed = text(device(f"{LOOP} out[i] = in[i];"), REWRITE, bytes=16, unroll=2)
    assert "in_vector[2];" in changed
    changed = changed[changed.index("kernel(") :]
    assert changed.index("in_vector[i_flight] = astra_load") < changed.index("astra_store(")
    assert "i_first += blockDim.x * i_lanes * 2" in changed


@pytest.mark.parametrize(
    ("body", "vectors"),
    [
        (f"{LOOP} {{ out[i] = *(in + i); }}", 2),
        (f"{LOOP} {{ out[i] = __ldg(in + i); }}", 2),
        (f"{LOOP} {{ out[i] = __ldg(&in[n + i]); }}", 2),
        (f"{LOOP} {{ out[i] += in[i]; }}", 2),
        (f"{LOOP} {{ out[i] = in[i] + in[i + n]; }}", 3),
        (f"{LOOP} {{ out[i] = in[i % 7]; }}", 1),
        (f"{LOOP} {{ out[i] = in[2 * i]; }}", 1),
        (f"{LOOP} {{ out[i] = a > 0 ? in[i] : 0; }}", 1),
        (f"{LOOP} {{ out[i] = in[i]; if (a > 0) x += in[i]; }}", 1),
        ("const float* row = in + blockIdx.x * n; " + LOOP + " a += row[i];", 1),
        (
            "for (size_t i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)"
            " out[i] = in[i];",
            2,
        ),
        ("for (int i = threadIdx.x % 32; i < n; i += 32) out[i] = in[i];", 2),
    ],
)
def test_number_of_accesses_that_become_vectors(body, vectors):
    changed = text(device(body), REWRITE, bytes=16)
    assert changed.count("_vector = astra_") + changed.count("_vector2 = astra_") == vectors


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (f"{LOOP} {{ if (in[i] > a) break; out[i] = a; }}", "break"),
        (f"{LOOP} {{ if (in[i] > a) return; }}", "return"),
        (f"{LOOP} {{ if (in[i] > a) continue; out[i] = a; }}", "continue"),
        (f"{LOOP} {{ __syncthreads(); out[i] = in[i]; }}", "__syncthreads"),
        (f"{LOOP} {{ out[i] = __shfl_xor_sync(~0u, in[i], 1); }}", "shfl"),
        (f"{LOOP} {{ x = in[i] - x; out[i] = x; }}", "depend on each other through x"),
        (f"float kept[4]; int k = 0; {LOOP} {{ kept[k++] = in[i]; }}", "depend on each other"),
        (f"{LOOP} {{ out[i] = in[i]; i += 1; }}", "changes i itself"),
        (f"{LOOP} {{ out[i] = in[i]; n -= 1; }}", "changes its bound"),
        (
            "int m = threadIdx.x; for (int i = threadIdx.x; i < m; i += blockDim.x) out[i] = 1;",
            "bound",
        ),
        (f"{LOOP} {{ x += in[i]; out[i] = x; }}", "depend on each other through x"),
        (f"{LOOP} {{ x += in[i]; x *= a; }}", "depend on each other through x"),
        (f"{LOOP} {{ out[i / 2] = in[2 * i]; }}", "no neighbouring"),
        ("for (int i = 0; i < n; ++i) out[i] = in[i];", "not of the form"),
        ("int i = threadIdx.x; out[i] = in[i];", "no loop that shares out"),
        ("for (int i = threadIdx.x; i < n; i += 2 * blockDim.x) out[i] = in[i];", "steps by 2"),
        (f"const float* mine = in + threadIdx.x; {LOOP} a += mine[i];", "no neighbouring"),
        (f"{LOOP} {{ out[i] = in[i]; }} {LOOP} {{ a += out[n - i]; }}", "without a barrier"),
    ],
)
def test_refused(body, reason):
    assert reason in refusal(device(body), REWRITE, bytes=16).reason


@pytest.mark.parametrize(
    ("body", "maker"),
    [
        ("out[i] = out[i] * a;", "astra_load"),
        ("out[i] *= a;", "astra_load"),
        ("out[i]++;", "astra_load"),
        ("(out[i]) += a;", "astra_load"),
        ("out[i] = in[i]; x += out[i];", "astra_like"),
        ("x += out[i]; out[i] = 0;", "astra_load"),
    ],
)
def test_an_element_used_before_it_is_written_is_loaded(body, maker):
    changed = text(device(f"{LOOP} {{ {body} }}"), REWRITE, bytes=16)
    assert f"auto out_vector = {maker}<" in changed
    assert "astra_store(out + i_first, out_vector);" in changed


def test_loops_that_share_out_alike_need_no_barrier():
    body = f"{LOOP} x += out[i]; {LOOP} out[i] *= x;"
    assert text(device(body), REWRITE, bytes=16).count("astra_load<i_lanes") == 2


def test_loops_that_share_out_otherwise_do():
    body = f"{LOOP} x += out[i]; {LOOP} out[i] = in[i];"
    assert "without a barrier" in refusal(device(body), REWRITE, bytes=16).reason


def test_blocks_that_share_a_range_have_no_barrier():
    loop = "for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += blockDim.x * gridDim.x)"
    body = f"{loop} out[i] = in[i]; __syncthreads(); {loop} x += out[n - i] + in[i];"
    assert "without a barrier" in refusal(device(body), REWRITE, bytes=16).reason


def test_a_pointer_that_escapes_stays_single():
    head = "__device__ float load(const float* p) { return *p; }"
    changed = text(device(f"{LOOP} out[i] = in[i] + load(in + i);", head=head), REWRITE, bytes=16)
    assert "in_vector" not in changed
    assert "out_vector" in changed


def test_structs_of_sixteen_bytes_are_only_unrolled():
    head = "struct alignas(16) Four { float lane[4]; };"
    body = f"Four* wide = (Four*)out; {LOOP} {{ wide[i] = wide[i]; }}"
    program = device(body, head=head)
    assert "whole vectors" in refusal(program, REWRITE, bytes=16, unroll=1).reason
    assert "wide_vector[4];" in text(program, REWRITE, bytes=16, unroll=4)
    assert [str(p) for p in REWRITE.parameters(program)] == [
        "bytes=16, unroll=2",
        "bytes=16, unroll=4",
    ]


def test_applying_it_again_finds_nothing():
    program = device(f"{LOOP} out[i] = in[i];")
    for unroll in (1, 2):
        once = REWRITE.apply(program, ParameterPoint.of(bytes=16, unroll=unroll))
        assert isinstance(once, Applied)
        assert refusal(program.with_sources(once.sources), REWRITE, bytes=16, unroll=unroll)


KERNEL = """
template <typename T, int VEC_SIZE>
__global__ void kernel(T* out, const T* in, int n) {
  for (int i = threadIdx.x; i < n / VEC_SIZE; i += blockDim.x) vec_t<T, VEC_SIZE>::copy(out, in, i);
}"""


@pytest.mark.parametrize(
    ("launch", "legal"),
    [
        ("const int vec_size = std::gcd(16 / sizeof(float), n);", [32, 8]),
        ("constexpr int vec_size = 16 / sizeof(float);", [8]),
        ("constexpr int vec_size = std::max(16 / sizeof(float), 64 / 32);", [32, 8]),
        ("constexpr int vec_size = 16 / sizeof(float); dim3 block(n / vec_size);", []),
        ("constexpr int vec_size = 16 / sizeof(float); dim3 block(min(n / vec_size, 256));", [8]),
    ],
)
def test_legal_bytes_of_a_vector_constant(launch, legal):
    program = host(KERNEL, f"{launch} kernel<float, vec_size><<<rows, 128>>>(out, in, n);")
    assert [dict(p.values)["constant"] for p in REWRITE.parameters(program)] == legal


@pytest.mark.parametrize(("multiple", "legal"), [(1, [2, 1]), (8, [8, 2, 1]), (16, [8, 2, 16, 1])])
def test_more_elements_need_a_promise(multiple, legal):
    program = host(KERNEL, "kernel<float, 4><<<rows, std::min(256, n / 4)>>>(out, in, n);")
    program = Program(program.sources, program.entry, {"n": multiple})
    assert [dict(p.values)["constant"] for p in REWRITE.parameters(program)] == legal
    assert "kernel<float, 2><<<rows, std::min(256, n / 2)>>>" in text(program, REWRITE, constant=2)


def test_a_kernel_of_float4_keeps_its_constant():
    kernel = KERNEL.replace("vec_t<T, VEC_SIZE>::copy(out, in, i)", "((float4*)out)[i] = float4()")
    program = host(kernel, "kernel<float, 4><<<rows, 128>>>(out, in, n);")
    assert "fixed type" in refusal(program, REWRITE, constant=2).reason
