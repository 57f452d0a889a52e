"""Builds with the real nvcc: what comes out, what is refused, and how failures read."""

import ctypes
import hashlib

import pytest

from astra_kernels.languages.cuda.build import build
from astra_kernels.languages.cuda.outcome import BuildFailure, Built
from astra_kernels.languages.cuda.request import BuildRequest


def errors(failure):
    assert isinstance(failure, BuildFailure)
    return [one for one in failure.diagnostics if one.severity == "error"]


def only_error(failure):
    found = errors(failure)
    assert len(found) == 1, found
    return found[0]


def test_builds_a_library_with_ptx_and_machine_code(compile_text, launcher, toolchain):
    built = compile_text(launcher, entry_symbols=("run",))
    assert isinstance(built, Built)
    data = built.library.read_bytes()
    assert hashlib.sha256(data).hexdigest() == built.digest
    assert b".target sm_90" in data and b".visible .entry" in data  # PTX, not compressed
    assert "run" in built.symbols.exported
    assert "__cudaRegisterFatBinary" in built.symbols.imported
    assert any(name.startswith("libcudart.so.") for name in built.symbols.needed)
    assert [kernel.demangled.partition("(")[0] for kernel in built.kernels] == ["scale"]
    assert 1 <= built.kernels[0].registers <= 255
    assert built.warnings == ()


def test_library_loads_with_the_shared_runtime(compile_text, launcher, toolchain):
    built = compile_text(launcher)
    ctypes.CDLL(str(toolchain.library_dirs[0] / toolchain.cudart), mode=ctypes.RTLD_GLOBAL)
    assert ctypes.CDLL(str(built.library)).run is not None


def test_several_units_and_headers_in_subdirectories(toolchain, build_cache):
    request = BuildRequest(
        sources={
            "include/lib/scale.h": "int twice(int);\n#define BLOCK 128\n",
            "host/twice.cpp": '#include "lib/scale.h"\nint twice(int n) { return 2 * n; }\n',
            "kernel.cu": "#include <lib/scale.h>\n__global__ void k(int* o) { *o = BLOCK + EXTRA; }\n"
            'extern "C" int run(int* o) { k<<<1, BLOCK>>>(o); return twice(21); }\n',
        },
        flags=("-I", "include", "-DEXTRA=3", "-Xptxas", "-v"),
        entry_symbols=("run",),
    )
    built = build(request, toolchain, build_cache)
    assert isinstance(built, Built), built
    assert [kernel.name for kernel in built.kernels] == ["_Z1kPi"]


def test_resources_of_a_kernel_that_spills_and_shares(compile_text):
    built = compile_text(
        """
        __constant__ float table[64];
        __global__ void __launch_bounds__(1024) k(const float* in, float* out, int n) {
          __shared__ float tile[256];
          float kept[96];
          #pragma unroll
          for (int i = 0; i < 96; ++i) kept[i] = in[i * n] * table[i % 64];
          tile[threadIdx.x % 256] = kept[0];
          __syncthreads();
          #pragma unroll
          for (int i = 0; i < 96; ++i) out[i * n] = kept[i] + kept[95 - i] * tile[i];
        }
        """
    )
    kernel = built.kernels[0]
    assert kernel.arch == "sm_90"
    assert kernel.registers == 64  # 65536 registers for 1024 threads
    assert kernel.static_shared_bytes == 1024
    assert kernel.barriers == 1
    assert kernel.spill_store_bytes > 0 and kernel.spill_load_bytes > 0
    assert kernel.stack_bytes > 0
    assert kernel.constant_bytes >= 3 * 8  # the parameters at least


@pytest.mark.parametrize(
    ("text", "tool", "line", "column", "message"),
    [
        ("__global__ void k(float* o) {\n  *o = 1.f\n}\n", "nvcc", 3, 1, 'expected a ";"'),
        ("int f() {\n  return missing;\n}\n", "nvcc", 2, 10, 'identifier "missing" is undefined'),
        ('int n = 1;\n#include "absent.h"\n', "host", 2, 10, "absent.h: No such file"),
        ('int f() { asm("frobnicate"); return 1; }\n', "host", 1, None, "no such instruction"),
        (
            '__global__ void k(float* o) { asm("foo.f32 %0;" : "=f"(*o)); }\n',
            "ptxas",
            0,
            None,
            "Not a name of any known instruction: 'foo'",
        ),
        (
            "__global__ void k(float* o) { __shared__ float s[99999]; s[*(int*)o] = 1; *o = s[0]; }\n",
            "ptxas",
            0,
            None,
            "uses too much shared data",
        ),
        (
            'extern "C" int nowhere();\nint f() { return nowhere(); }\n',
            "linker",
            0,
            None,
            "undefined reference to `nowhere'",
        ),
    ],
)
def test_failure_names_tool_and_place(compile_text, text, tool, line, column, message):
    failure = compile_text(text)
    found = errors(failure)[-1]
    assert (found.tool, found.line, found.column) == (tool, line, column), found
    assert message in found.message
    assert found.file == ("kernel.cu" if line else "")
    assert not failure.timed_out
    assert "/tmp" not in failure.log and "in-progress" not in failure.log


def test_undefined_device_function_fails(compile_text):
    failure = compile_text("__device__ int f(int);\n__global__ void k(int* o) { *o = f(1); }\n")
    assert "Unresolved extern function" in only_error(failure).message


def test_warnings_are_kept_with_the_library(compile_text):
    built = compile_text("__global__ void k() {\n  int unused = 1;\n}\n")
    assert [(one.severity, one.file, one.line) for one in built.warnings] == [
        ("warning", "kernel.cu", 2)
    ]


def test_missing_entry_point_fails(compile_text, launcher):
    failure = compile_text(launcher, entry_symbols=("run", "launch"))
    assert "launch is not exported" in only_error(failure).message


def test_template_bomb_ends_at_the_deadline(compile_text):
    failure = compile_text(
        "template <int N, int M> struct F { static constexpr long v = F<N-1, M>::v + F<N-1, M+N>::v; };\n"
        "template <int M> struct F<0, M> { static constexpr long v = M; };\n"
        "__global__ void k(long* o) { *o = F<60, 1>::v; }\n",
        deadline_s=3.0,
    )
    assert failure.timed_out
    assert "longer than 3 s" in only_error(failure).message


@pytest.mark.parametrize(
    "flags",
    [
        ("-ccbin", "/bin/sh"),
        ("-Xlinker", "-rpath=/"),
        ("-o", "/etc/passwd"),
        ("-I/etc",),
        ("-I", "../.."),
        ("-include", "/etc/shadow"),
        ("-optf", "flags"),
        ("@flags",),
        ("-DX=`id`",),
        ("-Xcompiler", "-Wl,-rpath,/"),
        ("-Xptxas", "-v,--output-file=/x"),
        ("other.cu",),
        ("-lcuda",),
        ("-O3 -o",),
        ("",),
    ],
)
def test_flags_off_the_list_are_refused(compile_text, launcher, flags):
    assert {one.tool for one in errors(compile_text(launcher, *flags))} == {"request"}


def test_usual_flags_are_accepted(compile_text, launcher):
    flags = "-O3 -std=c++20 --use_fast_math -DA -DB=2 -U C -I. -maxrregcount=64 --extended-lambda"
    more = "--expt-relaxed-constexpr -Xptxas -O3,-v -Xcompiler -Wall,-O2 -lineinfo -fmad=false"
    built = compile_text(launcher, *flags.split(), *more.split())
    assert isinstance(built, Built), built
    assert built.warnings == ()


@pytest.mark.parametrize(
    "path",
    [
        *[
            "../k.cu",
            "/tmp/k.cu",
            "a/../../k.cu",
            "a//k.cu",
            "./k.cu",
            "-o.cu",
            "k$(id).cu",
            "a\\b.cu",
        ],
        *("", "a b.cu", "x" * 300 + ".cu", "a/" * 120 + "k.cu"),
    ],
)
def test_paths_out_of_the_tree_are_refused(toolchain, build_cache, path):
    request = BuildRequest(sources={path: "", "ok.cu": ""})
    assert only_error(build(request, toolchain, build_cache)).tool == "request"


def test_other_nonsense_is_refused(toolchain, build_cache):
    for fields in (
        {"sources": {"only.h": ""}},
        {"sources": {"k.cu": "", "k.cu/x.h": ""}},
        {"sources": {"k.cu": "\udcff"}},
        {"sources": {"k.cu": ""}, "arch": "sm_90,code=sm_80"},
    ):
        assert errors(build(BuildRequest(**fields), toolchain, build_cache))[0].tool == "request"


@pytest.mark.parametrize(
    "text",
    [
        '#include "{secret}"\n',
        'int f() {{ asm(".incbin \\"{secret}\\""); return 1; }}\n',
        'asm(".include \\"{secret}\\"");\n',
        '#if __has_include("{secret}")\n#error found\n#endif\nint x = ;\n',
    ],
    ids=["include", "incbin", "assembler include", "has_include"],
)
def test_build_cannot_read_other_files(compile_text, tmp_path, text):
    secret = tmp_path / "secret.txt"
    secret.write_text("int hunter2;\n")
    failure = compile_text(text.format(secret=secret))
    assert errors(failure)
    assert "hunter2" not in failure.log and "#error found" not in failure.log


def test_build_of_the_same_text_is_allowed_inside_the_tree(toolchain, build_cache):
    request = BuildRequest(
        sources={
            "data.txt": "int hunter2;\n",
            "k.cu": '#include "data.txt"\nconst char* f() { asm(".incbin \\"data.txt\\""); return ""; }\n',
        }
    )
    assert isinstance(build(request, toolchain, build_cache), Built)
