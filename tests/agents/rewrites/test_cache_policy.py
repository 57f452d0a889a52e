"""Which loads and stores get a cache policy, and what must be proven of the memory first."""

import pytest
from small_programs import device, host, refusal, text

from astra_kernels.agents.rewrites import (
    Applied,
    CachePolicy,
    ParameterPoint,
    Program,
    VectorWidth,
)

REWRITE = CachePolicy()
ROW = "in[blockIdx.x * n + threadIdx.x]"


def kernel(body: str, parameters: str, *, head: str = "") -> Program:
    """A program whose only kernel has these parameters besides `int n`."""
    launch = "kernel<<<rows, 256, 0, stream>>>(out, in, n);"
    return host(f"__global__ void kernel({parameters}, int n) {{\n  {body}\n}}", launch, head=head)


def plain(body: str, element: str = "float", *, head: str = "") -> Program:
    parameters = f"{element}* __restrict__ out, const {element}* __restrict__ in"
    return kernel(body, parameters, head=head)


@pytest.mark.parametrize(
    ("load", "store", "before", "after"),
    [
        ("ldcs", "none", f"out[n] = {ROW};", f"out[n] = __ldcs(&{ROW});"),
        ("ldcg", "none", "out[n] = in[n];", "out[n] = __ldcg(&in[n]);"),
        ("ldg", "none", "out[n] = in[n] + in[0];", "out[n] = __ldg(&in[n]) + __ldg(&in[0]);"),
        ("ldg", "none", "out[n] = *(in + n);", "out[n] = __ldg((in + n));"),
        ("ldg", "none", "out[n] = *in;", "out[n] = __ldg(in);"),
        ("ldcg", "none", "out[n] = __ldg(&in[n]);", "out[n] = __ldcg(&in[n]);"),
        ("ldcg", "none", "out[n] = __ldg(in + n);", "out[n] = __ldcg(in + n);"),
        ("none", "stcs", "out[n] = in[n];", "__stcs(&out[n], in[n]);"),
        ("none", "stcs", "*(out + n) = in[n] * 2;", "__stcs((out + n), in[n] * 2);"),
        ("none", "stcs", "if (n > 3) out[n] = in[n];", "if (n > 3) __stcs(&out[n], in[n]);"),
        ("ldg", "stcs", "out[n] = in[n];", "__stcs(&out[n], __ldg(&in[n]));"),
        (
            "ldg",
            "none",
            "const float4* wide = reinterpret_cast<const float4*>(in); float4 v = wide[n];",
            "const float4* wide = reinterpret_cast<const float4*>(in); float4 v = __ldg(&wide[n]);",
        ),
        (
            "ldg",
            "none",
            "float4 v = ((const float4*)in)[n];",
            "float4 v = __ldg(&((const float4*)in)[n]);",
        ),
        ("ldg", "none", "in += n; out[n] = in[0];", "in += n; out[n] = __ldg(&in[0]);"),
        (
            "ldg",
            "none",
            "out[n] = in[static_cast<int>(in[n])];",
            "out[n] = __ldg(&in[static_cast<int>(__ldg(&in[n]))]);",
        ),
    ],
)
def test_access_becomes(load, store, before, after):
    assert f"  {after}\n" in text(plain(before), REWRITE, load=load, store=store)


@pytest.mark.parametrize(
    ("element", "head", "intrinsic"),
    [
        ("float", "", "__ldg"),
        ("float2", "", "__ldg"),
        ("unsigned int", "", "__ldg"),
        ("__half", "#include <cuda_fp16.h>", "__ldg"),
        ("__half2", "#include <cuda_fp16.h>", "__ldg"),
        ("__nv_bfloat16", "#include <cuda_bf16.h>", "__ldg"),
        ("__half", "", "astra_ldg"),
        ("bool", "", "astra_ldg"),
        ("float3", "", "astra_ldg"),
        ("Four", "struct Four { float lane[4]; };", "astra_ldg"),
    ],
)
def test_a_type_without_an_overload_moves_as_words(element, head, intrinsic):
    changed = text(plain("out[n] = in[n];", element, head=head), REWRITE, load="ldg", store="none")
    assert f"out[n] = {intrinsic}(&in[n]);" in changed
    assert ("#define ASTRA_LDG" in changed) == intrinsic.startswith("astra")


@pytest.mark.parametrize(
    ("parameters", "body", "reason"),
    [
        ("float* out, const float* in", "out[n] = in[n];", "in is not __restrict__"),
        ("float* __restrict__ out, float* __restrict__ in", "in[n] = in[0];", "writes through in"),
        (
            "float* __restrict__ out, float* __restrict__ in",
            "float* row = in + n; row[0] = 1; out[n] = in[n];",
            "writes through in",
        ),
        (
            "float* __restrict__ out, float* __restrict__ in",
            "atomicAdd(in + n, 1.f); out[n] = in[n];",
            "what happens to in here cannot be told",
        ),
        (
            "float* __restrict__ out, float* __restrict__ in",
            "atomicAdd(&in[n], 1.f); out[n] = in[n];",
            "what happens to in here cannot be told",
        ),
        (
            "float* __restrict__ out, const float* __restrict__ in",
            'asm volatile("" :: "l"(in)); out[n] = in[n];',
            "what happens to in here cannot be told",
        ),
        (
            "float* __restrict__ out, const float* __restrict__ in",
            "((float*)in)[n] = 1; out[n] = in[n];",
            "writes through in",
        ),
        (
            "float* __restrict__ out, const float* __restrict__ in",
            "fill((float*)in); out[n] = in[n];",
            "what happens to in here cannot be told",
        ),
        (
            "float* __restrict__ out, float* __restrict__ in",
            "auto& element = in[n]; element = 1; out[n] = in[0];",
            "what happens to in here cannot be told",
        ),
        (
            "float* __restrict__ out, float* __restrict__ in",
            "float* other; other = in; *other = 1; out[n] = in[0];",
            "what happens to in here cannot be told",
        ),
        (
            "float* __restrict__ out, float* __restrict__ in",
            "raise(in[n]); out[n] = in[0];",
            "what happens to in here cannot be told",
        ),
        (
            "float* __restrict__ out, float* __restrict__ in",
            "out[n] = FOUR(in[n]).x;",
            "what happens to in here cannot be told",
        ),
    ],
)
def test_memory_that_may_change_is_not_loaded_as_constant(parameters, body, reason):
    head = """#define FOUR(x) (reinterpret_cast<float4*>(&(x))[0])
__device__ void fill(float* p) { *p = 1; }
__device__ void raise(float& x) { x += 1; }"""
    refused = refusal(kernel(body, parameters, head=head), REWRITE, load="ldg", store="none")
    assert reason in refused.reason
    assert refused.line


def test_data_that_every_block_reads_is_not_streamed():
    refused = refusal(plain("out[n] = in[threadIdx.x];"), REWRITE, load="ldcs", store="none")
    assert "every block reads in" in refused.reason
    changed = text(
        plain(f"const int row = blockIdx.x * n; out[n] = in[row] + in[0] + {ROW};"),
        REWRITE,
        load="ldcs",
        store="none",
    )
    assert f"__ldcs(&in[row]) + in[0] + __ldcs(&{ROW})" in changed


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ("out[n] = 1; out[0] = out[n];", "reads what it writes through out"),
        ("out[n] += in[n];", "reads what it writes through out"),
        ("float* row = out + n; row[1] = 0; x = row[2];", "reads what it writes through out"),
        ("atomicAdd(out, 1.f); out[n] = in[n];", "what happens to out here"),
        ("int m = n; m = 3;", "no store of global memory"),
        ("float kept[2]; kept[0] = in[n];", "no store of global memory"),
        ("__shared__ float s[2]; float* p = s; p[1] = in[n];", "no store of global memory"),
        ("x = out[n] = 3;", "no store of global memory"),
    ],
)
def test_stores_that_stay(body, reason):
    assert reason in refusal(plain(body), REWRITE, load="none", store="stcs").reason


@pytest.mark.parametrize(
    "body",
    [
        "float x = reinterpret_cast<const float4*>(in)[n].x;",
        "const float& x = in[n];",
        "int size = sizeof(in[n]);",
        "const float* p = &in[n];",
    ],
)
def test_what_is_no_load_of_a_whole_value_stays(body):
    assert "no load" in refusal(plain(body), REWRITE, load="ldg", store="none").reason


def test_loads_that_were_made_vectors_get_their_policy_too():
    loop = "for (int i = threadIdx.x; i < n; i += blockDim.x)"
    program = plain(f"{loop} out[blockIdx.x * n + i] = in[blockIdx.x * n + i];")
    wide = VectorWidth().apply(program, ParameterPoint.of(bytes=16, unroll=2))
    assert isinstance(wide, Applied)
    changed = text(program.with_sources(wide.sources), REWRITE, load="ldcs", store="stcs")
    assert "= astra_ldcs_lanes<i_lanes>(in + blockIdx.x * n + i_at);" in changed
    assert "astra_stcs_as(out + blockIdx.x * n + i_at, out_vector[i_flight]);" in changed


def test_points_are_programs_that_differ():
    points = [str(point) for point in REWRITE.parameters(plain("out[n] = in[threadIdx.x];"))]
    assert points == [
        "load=ldcs, store=stcs",  # the load stays: the same as none with stcs
        "load=ldcg, store=none",
        "load=ldg, store=none",
        "load=ldcg, store=stcs",
        "load=ldg, store=stcs",
    ]
    assert REWRITE.parameters(device("x = a;")) == ()


def test_one_policy_gives_way_to_another_and_stays_when_asked_again():
    program = plain(f"out[n] = {ROW};", "bool")
    once = REWRITE.apply(program, ParameterPoint.of(load="ldcs", store="stcs"))
    assert isinstance(once, Applied)
    again = program.with_sources(once.sources)
    assert refusal(again, REWRITE, load="ldcs", store="stcs")
    changed = text(again, REWRITE, load="ldcg", store="stcs")
    assert "astra_stcs(&out[n], astra_ldcg(&in" in changed
    assert changed.count("#define ASTRA_STCS") == 1


@pytest.mark.parametrize(
    "point", [{"load": "nonsense"}, {"load": "none", "store": "none"}, {"store": "ldcs"}, {}]
)
def test_an_impossible_point_is_refused(point):
    assert "no such" in refusal(plain("out[n] = in[n];"), REWRITE, **point).reason
