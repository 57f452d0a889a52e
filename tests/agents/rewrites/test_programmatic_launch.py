"""Launches that may start early, where their kernels wait, and launches that stay as they are."""

import pytest
from small_programs import host, refusal, text

from astra_kernels.agents.rewrites import (
    Applied,
    LaunchGeometry,
    ParameterPoint,
    Program,
    ProgrammaticLaunch,
)

REWRITE = ProgrammaticLaunch()
WAIT = "cudaGridDependencySynchronize();"
TRIGGER = "cudaTriggerProgrammaticLaunchCompletion();"
ROWS = "for (int i = threadIdx.x; i < n; i += blockDim.x) out[blockIdx.x * n + i] = in[i];"


def launched(
    body: str = ROWS,
    launch: str = "kernel<<<rows, 256, 0, stream>>>(out, in, n);",
    *,
    template: str = "",
    head: str = "",
) -> Program:
    kernel = (
        f"{template}__global__ void kernel(float* out, const float* in, int n) {{\n  {body}\n}}"
    )
    return host(kernel, launch, head=head)


def test_the_launch_gets_the_attribute():
    assert """\
  {
    cudaLaunchAttribute early_1[1];
    early_1[0].id = cudaLaunchAttributeProgrammaticStreamSerialization;
    early_1[0].val.programmaticStreamSerializationAllowed = 1;
    cudaLaunchConfig_t early_config_1 = {};
    early_config_1.gridDim = rows;
    early_config_1.blockDim = 256;
    early_config_1.dynamicSmemBytes = 0;
    early_config_1.stream = stream;
    early_config_1.attrs = early_1;
    early_config_1.numAttrs = 1;
    cudaLaunchKernelEx(&early_config_1, kernel, out, in, n);
  }
""" in text(launched(), REWRITE, trigger="none")


@pytest.mark.parametrize(
    ("launch", "call"),
    [
        ("kernel<<<dim3(rows), dim3(256)>>>(out, in, n);", "kernel, out, in, n);"),
        ("kernel<<<rows, 256>>>(out, nullptr, n + 1);", "kernel, out, nullptr, n + 1);"),
        ("if (n > 0) kernel<<<rows, 256>>>(out, in, n); else return 1;", "kernel, out, in, n);"),
    ],
)
def test_launches_that_qualify(launch, call):
    changed = text(launched(launch=launch), REWRITE, trigger="none")
    assert f"cudaLaunchKernelEx(&early_config_1, {call}" in changed
    assert "<<<" not in changed


def test_every_launch_of_a_kernel_is_early_and_has_variables_of_its_own():
    launch = "kernel<<<rows, 256>>>(out, in, n); kernel<<<rows, 64>>>(out, in, n);"
    changed = text(launched(launch=launch), REWRITE, trigger="none")
    assert changed.count("cudaLaunchKernelEx(&early_config_1, ") == 1
    assert changed.count("cudaLaunchKernelEx(&early_config_2, ") == 1
    assert changed.count(WAIT) == 1


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("const int row = blockIdx.x;", "out[row] = in[row];"),
        ("const int row = blockIdx.x; const float* p = in + (size_t)row * n;", "out[0] = p[1];"),
        ("const float4* p = reinterpret_cast<const float4*>(in);", "out[n] = p->x;"),
        ("__shared__ float s[256]; float x = 0, y = kScale;", "s[0] = in[n] * y;"),
        ("constexpr int kWidth = 4; using T = float;", "T x = in[kWidth];"),
        ("// a comment\n  const int half = n / WIDTH;", "if (half == 0) return;"),
        ("", "const float x = in[n];"),
        ("", "const float x = *in;"),
        ("", "if (blockIdx.x > n) return;"),
        ("", "const float x = lookup(n);"),
        ("", "const int x = counter;"),
        ("", "const float x = FIRST;"),
        ("", "const float x = table;"),
        ("", "auto block = cooperative_groups::this_thread_block();"),
        ("", "__syncthreads();"),
    ],
)
@pytest.mark.parametrize("trigger", ["none", "start"])
def test_the_wait_stands_behind_what_only_computes(before, after, trigger):
    head = """#define WIDTH (2)
#define FIRST in[0]
constexpr float kScale = 2.0f;
__device__ int counter;
__device__ float table = 3.0f;
__device__ float lookup(int n) { return table; }"""
    changed = text(launched(f"{before} {after} {ROWS}", head=head), REWRITE, trigger=trigger)
    assert changed.count(WAIT) == 1
    body = " ".join(changed[changed.index("int n) {") :].split())
    wait = WAIT if trigger == "none" else f"{WAIT} {TRIGGER}"
    assert f"{' '.join(before.split())} {wait} {after}".strip() in body
    assert changed.count(TRIGGER) == (trigger == "start")


def test_a_directive_keeps_its_line():
    changed = text(
        launched(f"const int m = n;\n#pragma unroll 4\n  {ROWS}"), REWRITE, trigger="start"
    )
    assert f"{WAIT}\n  {TRIGGER}\n#pragma unroll 4\n" in changed


@pytest.mark.parametrize(
    ("launch", "reason"),
    [
        ("cudaLaunchKernel((void*)kernel, dim3(rows), dim3(256), args, 0, stream);", "no plain"),
        (
            "cudaLaunchConfig_t c = {}; c.gridDim = rows; c.blockDim = 256;"
            " cudaLaunchKernelEx(&c, kernel, out, in, n);",
            "no plain",
        ),
        (
            "cudaLaunchConfig_t c = {}; c.gridDim = rows; c.blockDim = 256;"
            " cudaLaunchKernelEx(&c, kernel, out, in, n); kernel<<<rows, 256>>>(out, in, n);",
            "no plain",
        ),
        ("kernel<<<rows, 256>>>(out, 0, n);", "the argument 0"),
        ("kernel<<<rows, 256>>>(out, NULL, n);", "the argument NULL"),
        ("kernel<<<rows, 256>>>(out, {}, n);", "the argument {}"),
        ("kernel<<<rows, 256>>>(out, in, n), n = 1;", "no statement of its own"),
        ("n = 1;", "no launch of kernel"),
        ("auto f = choose(n); f<<<rows, 64>>>(out, in, n);", "does not name its kernel"),
    ],
)
def test_refused(launch, reason):
    refused = refusal(launched(launch=f"{launch} use(kernel);"), REWRITE, trigger="none")
    assert reason in refused.reason
    assert refused.line


def test_a_kernel_that_waits_already_stays():
    for wait in (WAIT, 'asm volatile("griddepcontrol.wait;");'):
        assert "already" in refusal(launched(f"{wait} {ROWS}"), REWRITE, trigger="none").reason


def test_two_kernels_of_one_name_stay():
    program = launched(head="__global__ void kernel(int* out) { *out = 1; }")
    assert "several functions" in refusal(program, REWRITE, trigger="none").reason


@pytest.mark.parametrize(
    ("template", "launch", "call"),
    [
        (
            "template <typename T>",
            "kernel<float><<<rows, 256>>>(out, in, n);",
            "kernel<float>, out",
        ),
        (
            "template <int N, int M = 2>",
            "kernel<1, 2><<<rows, 256>>>(out, in, n);",
            "kernel<1, 2>, o",
        ),
        ("template <typename T>", "kernel<<<rows, 256>>>(out, in, n);", None),
        ("template <int N, int M = 2>", "kernel<1><<<rows, 256>>>(out, in, n);", None),
    ],
)
def test_a_template_must_be_spelled_out(template, launch, call):
    program = launched(launch=launch, template=f"{template}\n")
    if call is None:
        assert "decide the kernel's template" in refusal(program, REWRITE, trigger="none").reason
    else:
        assert f"cudaLaunchKernelEx(&early_config_1, {call}" in text(
            program, REWRITE, trigger="none"
        )


def test_the_geometry_can_still_change():
    once = REWRITE.apply(launched(), ParameterPoint.of(trigger="start"))
    assert isinstance(once, Applied)
    changed = text(launched().with_sources(once.sources), LaunchGeometry(), block=128, split=4)
    assert "early_config_1.blockDim = 128;" in changed
    assert "early_config_1.gridDim = dim3(rows, 4);" in changed


def test_applying_it_again_finds_nothing():
    once = REWRITE.apply(launched(), ParameterPoint.of(trigger="start"))
    assert isinstance(once, Applied)
    for trigger in ("start", "none"):
        assert refusal(launched().with_sources(once.sources), REWRITE, trigger=trigger)


def test_points():
    assert [str(p) for p in REWRITE.parameters(launched())] == ["trigger=none", "trigger=start"]
    assert REWRITE.parameters(launched(launch="n = 1;")) == ()


@pytest.mark.parametrize("point", [{"trigger": "late"}, {}, {"trigger": 1}])
def test_an_impossible_point_is_refused(point):
    assert "no such" in refusal(launched(), REWRITE, **point).reason
