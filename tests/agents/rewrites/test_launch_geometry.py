"""Block sizes that change everywhere they stand, and rows shared by several blocks."""

import pytest
from small_programs import host, refusal, text

from astra_kernels.agents.rewrites import LaunchGeometry

REWRITE = LaunchGeometry()
ROWS = """
__global__ void kernel(float* out, const float* in, int n) {
  for (int i = threadIdx.x; i < n; i += blockDim.x) out[blockIdx.x * n + i] = in[i];
}"""
SUM = """
__global__ void __launch_bounds__(256) kernel(float* out, const float* in, int n) {
  __shared__ float partial[8];
  float sum = 0;
  for (int i = threadIdx.x; i < n; i += blockDim.x) sum += in[blockIdx.x * n + i];
  for (int o = 16; o > 0; o >>= 1) sum += __shfl_xor_sync(~0u, sum, o);
  if (threadIdx.x % 32 == 0) partial[threadIdx.x / 32] = sum;
  __syncthreads();
  if (threadIdx.x == 0) {
    for (int w = 1; w < blockDim.x / 32; ++w) sum += partial[w];
    out[blockIdx.x] = sum;
  }
}"""
GLOBAL = """
__global__ void kernel(float* out, const float* in, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = in[i];
}"""


@pytest.mark.parametrize(
    ("head", "launch", "changed"),
    [
        ("", "kernel<<<rows, 256>>>(out, in, n);", "kernel<<<rows, 512>>>"),
        ("", "const int t = 256; kernel<<<rows, t>>>(out, in, n);", "const int t = 512;"),
        ("", "dim3 block(256); kernel<<<rows, block>>>(out, in, n);", "dim3 block(512);"),
        ("", "dim3 block = dim3(256, 1); kernel<<<rows, block>>>(out, in, n);", "dim3(512, 1)"),
        ("", "dim3 block{256}; kernel<<<rows, block>>>(out, in, n);", "dim3 block{512};"),
        ("#define THREADS 256", "kernel<<<rows, THREADS>>>(out, in, n);", "#define THREADS 512"),
        ("constexpr int kT = 256;", "kernel<<<rows, kT>>>(out, in, n);", "constexpr int kT = 512;"),
        ("", "kernel<<<rows, std::min(n, 256)>>>(out, in, n);", "std::min(n, 512)"),
        ("", "kernel<<<rows, std::min<int>(n, 256)>>>(out, in, n);", "std::min<int>(n, 512)"),
        (
            "",
            "cudaLaunchConfig_t c = {}; c.gridDim = rows; c.blockDim = 256;"
            " cudaLaunchKernelEx(&c, kernel, out, in, n);",
            "c.blockDim = 512;",
        ),
        (
            "",
            "void* args[] = {&out, &in, &n};"
            " cudaLaunchKernel((void*)kernel, dim3(rows), dim3(256), args, 0, stream);",
            "dim3(rows), dim3(512), args",
        ),
    ],
)
def test_the_number_is_found_behind(head, launch, changed):
    assert changed in text(host(ROWS, launch, head=head), REWRITE, block=512)


def test_everything_that_repeats_the_number_follows():
    changed = text(host(SUM, "kernel<<<256, 256>>>(out, in, n);"), REWRITE, block=512)
    assert "__launch_bounds__(512)" in changed
    assert "partial[16]" in changed
    assert "kernel<<<256, 512>>>" in changed, "the number of rows is another 256"


def test_a_grid_that_rounds_up_follows():
    launch = "kernel<<<(n + 255) / 256, 256>>>(out, in, n);"
    assert "kernel<<<(n + 127) / 128, 128>>>" in text(host(GLOBAL, launch), REWRITE, block=128)


def test_template_arguments_follow_if_their_name_says_so():
    kernel = "template <typename T, int BLOCK>" + ROWS.replace("float", "T")
    launch = "kernel<float, 256><<<rows, 256>>>(out, in, n);"
    assert "kernel<float, 64><<<rows, 64>>>" in text(host(kernel, launch), REWRITE, block=64)
    odd = kernel.replace("BLOCK", "HEAD_DIM")
    assert "HEAD_DIM" in refusal(host(odd, launch), REWRITE, block=64).reason


@pytest.mark.parametrize(
    ("kernel", "launch", "reason"),
    [
        (ROWS, "kernel<<<rows, n>>>(out, in, n);", "no constant"),
        (ROWS, "kernel<<<rows, dim3(16, 16)>>>(out, in, n);", "several axes"),
        (ROWS, "dim3 b; b.x = 256; kernel<<<rows, b>>>(out, in, n);", "piece by piece"),
        (
            ROWS.replace(
                "for (int i = threadIdx.x; i < n; i += blockDim.x)", "int i = threadIdx.x;"
            ),
            "kernel<<<rows, 256>>>(out, in, n);",
            "may depend on the block size",
        ),
        (
            ROWS.replace("in[i]", "in[i & 255]"),
            "kernel<<<rows, 256>>>(out, in, n);",
            "255 may stand",
        ),
        (
            SUM.replace("w < blockDim.x / 32", "threadIdx.x < 8"),
            "kernel<<<rows, 256>>>(out, in, n);",
            "number of warps",
        ),
        (
            GLOBAL.replace(
                "blockIdx.x * blockDim.x + threadIdx.x", "blockIdx.x * 8 + threadIdx.x / 32"
            ),
            "kernel<<<(n + 7) / 8, 256>>>(out, in, n);",
            "each warp",
        ),
        (GLOBAL, "kernel<<<n / 256, 256>>>(out, in, n);", "grid does not follow"),
        (
            GLOBAL.replace("if (i < n)", ""),
            "kernel<<<(n + 255) / 256, 256>>>(out, in, n);",
            "guard",
        ),
        (ROWS, "kernel<<<rows, 256>>>(out, in, n); kernel<<<rows, 128>>>(out, in, n);", "several"),
    ],
)
def test_block_size_is_refused(kernel, launch, reason):
    assert reason in refusal(host(kernel, launch), REWRITE, block=512).reason


def test_a_number_shared_with_another_kernel_stays():
    kernels = ROWS + ROWS.replace("kernel", "other").replace(
        "for (int i = threadIdx.x; i < n; i += blockDim.x)", "int i = threadIdx.x;"
    )
    launch = "const int t = 256; kernel<<<rows, t>>>(out, in, n); other<<<rows, t>>>(out, in, n);"
    assert refusal(host(kernels, launch), REWRITE, block=512)


def test_growing_needs_shared_memory_that_grows():
    kernel = SUM.replace("__shared__ float partial[8]", "extern __shared__ float partial[]")
    fixed = host(kernel, "kernel<<<rows, 256, 9 * 4>>>(out, in, n);")
    assert "does not grow" in refusal(fixed, REWRITE, block=512).reason
    assert "rows, 128, 9 * 4" in text(fixed, REWRITE, block=128)
    growing = host(kernel, "kernel<<<rows, 256, 8 * sizeof(float)>>>(out, in, n);")
    assert "rows, 512, 16 * sizeof(float)" in text(growing, REWRITE, block=512)


def test_rows_are_split():
    changed = text(host(ROWS, "kernel<<<rows, 256>>>(out, in, n);"), REWRITE, split=4)
    assert "kernel<<<dim3(rows, 4), 256>>>" in changed
    assert (
        "i = threadIdx.x + blockIdx.y * blockDim.x; i < n; i += blockDim.x * gridDim.y" in changed
    )


@pytest.mark.parametrize(
    ("launch", "changed"),
    [
        ("dim3 grid(rows); kernel<<<grid, 256>>>(out, in, n);", "kernel<<<dim3(grid.x, 4), 256>>>"),
        ("kernel<<<dim3(rows), 256>>>(out, in, n);", "kernel<<<dim3(rows, 4), 256>>>"),
        ("kernel<<<dim3(rows, 1, 1), 256>>>(out, in, n);", "kernel<<<dim3(rows, 4), 256>>>"),
        (
            "cudaLaunchConfig_t c = {}; c.gridDim = rows; c.blockDim = 256;"
            " cudaLaunchKernelEx(&c, kernel, out, in, n);",
            "c.gridDim = dim3(rows, 4);",
        ),
    ],
)
def test_the_grid_gets_a_second_axis(launch, changed):
    assert changed in text(host(ROWS, launch), REWRITE, split=4)


def test_a_value_that_the_first_thread_writes_is_written_by_one_block():
    kernel = ROWS.rstrip("}") + "  if (threadIdx.x == 0) out[blockIdx.x] = 1.f;\n}"
    changed = text(host(kernel, "kernel<<<rows, 256>>>(out, in, n);"), REWRITE, split=2)
    assert "if (threadIdx.x == 0 && blockIdx.y == 0)" in changed


@pytest.mark.parametrize(
    ("kernel", "launch", "reason"),
    [
        (SUM, "kernel<<<rows, 256>>>(out, in, n);", "work together"),
        (ROWS, "kernel<<<dim3(rows, 2), 256>>>(out, in, n);", "second axis"),
        (
            ROWS.replace("in[i]", "in[i + blockIdx.y]"),
            "kernel<<<rows, 256>>>(out, in, n);",
            "already",
        ),
        (GLOBAL, "kernel<<<(n + 255) / 256, 256>>>(out, in, n);", "no loop that"),
        (
            ROWS.rstrip("}") + " out[threadIdx.x] = 0; }",
            "kernel<<<rows, 256>>>(out, in, n);",
            "outside",
        ),
        (
            ROWS.rstrip("}") + " out[blockIdx.x] = 0; }",
            "kernel<<<rows, 256>>>(out, in, n);",
            "outside",
        ),
        (
            ROWS.replace("out[blockIdx.x * n + i] = in[i];", "atomicAdd(out, in[i]);"),
            "kernel<<<rows, 256>>>(out, in, n);",
            "work together",
        ),
    ],
)
def test_split_is_refused(kernel, launch, reason):
    assert reason in refusal(host(kernel, launch), REWRITE, split=4).reason


HELPER = """
__device__ void help(float* out, int n) {
  for (int i = threadIdx.x; i < n; i += blockDim.x) out[i] *= 2;
}
__device__ void count(float* out) { *out += 1; }
__device__ float twice(float v) { return 2 * v; }
"""


@pytest.mark.parametrize(
    ("call", "reason"),
    [("help(out, n);", "help looks at the thread index"), ("count(out);", "count may write")],
)
def test_helpers_that_do_the_work_of_a_row_prevent_a_split(call, reason):
    kernel = HELPER + ROWS.rstrip("}") + f"{call} }}"
    program = host(kernel, "kernel<<<rows, 256>>>(out, in, n);")
    assert reason in refusal(program, REWRITE, split=4).reason


def test_helpers_that_only_compute_do_not():
    kernel = HELPER + ROWS.replace("= in[i]", "= twice(in[i])")
    assert "gridDim.y" in text(host(kernel, "kernel<<<rows, 256>>>(out, in, n);"), REWRITE, split=4)


@pytest.mark.parametrize("values", [{}, {"block": 100}, {"split": 3}, {"block": 2048}])
def test_an_impossible_point_is_refused(values):
    assert refusal(host(ROWS, "kernel<<<rows, 256>>>(out, in, n);"), REWRITE, **values)
