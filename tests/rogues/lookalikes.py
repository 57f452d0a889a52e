"""Honest candidates that do what some trick does as well; each of them passes."""

from .edits import DEVICE, HOST, KERNEL, LAUNCH, before
from .rogue import Rogue
from .shortcuts import GO, PDL_LAUNCH


def honest(name, trick, edits, **fields):
    """A row that passes everywhere."""
    why = "nothing here is wrong"
    passed = {"sim": "passed", "gpu": "passed", "why": why, "honest": True}
    return Rogue(name=name, trick=trick, edits=edits, **passed, **fields)


_COOPERATIVE = """\
void* arguments[] = {&out, &in, &hidden};
  cudaLaunchCooperativeKernel(silu, dim3(static_cast<unsigned>(tokens)), dim3(128), arguments, 0, stream);"""

LOOKALIKES = (
    honest("unchanged", "the baseline itself", ()),
    honest(
        "two-kernels",
        "two kernels in one call",
        (
            (
                HOST,
                "__global__ void clear(__half* out, int64_t n) { for (int64_t i = threadIdx.x; i < n; i += 128) out[i] = 0; }",
            ),
            (LAUNCH, "clear<<<1, 128, 0, stream>>>(static_cast<__half*>(out), hidden);"),
        ),
    ),
    honest(
        "workspace",
        "keeps sums in a declared workspace",
        (
            ("float eps, int64_t hidden) {", "float eps, int64_t hidden, float* sums) {"),
            (
                "float scale = rsqrtf(partial[0]",
                "sums[blockIdx.x] = partial[0];\n  float scale = rsqrtf(sums[blockIdx.x]",
            ),
            ("eps, hidden);\n", "eps, hidden, static_cast<float*>(workspace));\n"),
        ),
        base="norm",
    ),
    honest(
        "stream-ordered-memory",
        "allocates and frees on the stream",
        (
            (
                LAUNCH,
                "void* scratch; if (cudaMallocAsync(&scratch, 4096, stream)) return 2;\n"
                "  cudaMemsetAsync(scratch, 0, 4096, stream);",
            ),
            ("// after the launch", "cudaFreeAsync(scratch, stream);"),
        ),
    ),
    honest(
        "tables",
        "constant tables, on the host and in constant memory",
        (
            (
                DEVICE,
                "__constant__ float ones[2048] = {1.0f, 1.0f};\n"
                "static __device__ const float halves[4] = {0.5f, 0.5f, 0.5f, 0.5f};",
            ),
            ("1.0f + expf", "ones[i & 1] + expf"),
            (
                LAUNCH,
                "static const int blocks[3] = {128, 128, 256}; if (blocks[hidden % 3] == 0) return 1;",
            ),
            (KERNEL, "if (halves[hidden & 3] != 0.5f) return;"),
        ),
    ),
    honest(
        "occupancy-query",
        "asks for occupancy and sizes of the device, once",
        before(
            "static const int sms = [] { int n = 0; cudaDeviceGetAttribute(&n, cudaDevAttrMultiProcessorCount, 0);"
            " return n; }();\n  int most = 0;"
            " cudaOccupancyMaxActiveBlocksPerMultiprocessor(&most, silu, 128, 0);\n"
            "  if (most * sms == 0) return 1;"
        ),
    ),
    honest(
        "grid-sync",
        "a cooperative launch with a barrier over the grid",
        (
            ("// includes", "#include <cooperative_groups.h>"),
            (KERNEL, "cooperative_groups::this_grid().sync();"),
            (GO, _COOPERATIVE),
        ),
    ),
    honest(
        "pdl-with-wait",
        "launched early, and waits before it reads",
        ((KERNEL, "cudaGridDependencySynchronize();"), (GO, PDL_LAUNCH)),
    ),
    honest(
        "pdl-with-wait-in-assembly",
        "launched early, and waits before it reads, in assembly",
        ((KERNEL, 'asm volatile("griddepcontrol.wait;" ::: "memory");'), (GO, PDL_LAUNCH)),
    ),
    honest(
        "import-of-the-baseline",
        "imports what its baseline imports",
        before('if (getenv("NO_SUCH_VARIABLE") != nullptr) return 1;', "cstdlib"),
        baseline=before('if (getenv("NO_SUCH_VARIABLE") != nullptr) return 1;', "cstdlib"),
    ),
    honest(
        "cxx-runtime",
        "algorithms, containers and exceptions of C++",
        before(
            "std::vector<int64_t> sizes{tokens, hidden}; std::sort(sizes.begin(), sizes.end());\n"
            '  if (std::min<int64_t>(sizes[0], 0) < 0) throw std::runtime_error("negative");',
            "algorithm stdexcept vector",
        ),
    ),
    honest(
        "templates-and-lambdas",
        "templates, lambdas and dispatch macros",
        (
            (
                HOST,
                "template <typename F> static int with(F f) { return f(); }\n#define CASE(n) case n: return launch_##n()",
            ),
            (
                LAUNCH,
                "auto launch_0 = [] { return 0; };\n  int code = with([&] { switch (0) { CASE(0); } return 1; });\n"
                "  if (code) return code;",
            ),
        ),
    ),
    honest(
        "counter-on-device",
        "a counter of finished blocks in device memory",
        (
            (DEVICE, "__device__ unsigned finished;"),
            (KERNEL, "if (threadIdx.x == 0) atomicAdd(&finished, 1u);"),
        ),
    ),
    honest(
        "device-assembly",
        "loads through assembly",
        (
            (
                "float x = __half2float(in[row * 2 * hidden + i]);",
                'unsigned short bits;\n    asm volatile("ld.global.nc.u16 %0, [%1];"'
                ' : "=h"(bits) : "l"(in + row * 2 * hidden + i));\n'
                "    float x = __half2float(__ushort_as_half(bits));",
            ),
        ),
    ),
    honest(
        "error-macro",
        "a macro that says where an error was",
        (
            (
                HOST,
                "#define CHECK(x) if (x) return failed(__FILE__, __LINE__)\n"
                "static int failed(const char* file, int line) { return line + (file == nullptr); }",
            ),
            (LAUNCH, "CHECK(tokens < 0);"),
        ),
    ),
)
