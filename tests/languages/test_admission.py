"""What an honest launcher imports passes; what a cheat imports is named."""

import dataclasses
import subprocess

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from astra_kernels.languages.cuda.admission import Submission, examine, examine_symbols
from astra_kernels.languages.cuda.elf import ElfError, LibrarySymbols, embedded_cubins, read_symbols

NOTHING = LibrarySymbols((), (), (), (), (), (), ())

CHEAT = """
#include <chrono>
#include <cstdlib>
#include <thread>
static int phase;
__attribute__((constructor)) static void early() { phase = getenv("PHASE") != nullptr; }
extern "C" long run() {
  std::thread later([] { phase = 2; });
  later.detach();
  cudaDeviceSynchronize();
  return std::chrono::steady_clock::now().time_since_epoch().count();
}
"""

HONEST = """
#include <iostream>
#include <cmath>
#include <stdexcept>
#include <string>
#include <vector>
__global__ void k(float* o, float f) { o[threadIdx.x] = f; }
extern "C" int run(float* o, float f, int n, cudaStream_t stream) {
  std::vector<int> sizes(n, 3);
  if (n > 9) throw std::runtime_error("too many: " + std::to_string(n));
  float* scratch = nullptr;
  cudaMallocAsync(&scratch, n * sizeof(float), stream);
  cudaMemsetAsync(scratch, 0, n * sizeof(float), stream);
  cudaFuncSetAttribute(k, cudaFuncAttributeMaxDynamicSharedMemorySize, 1 << 16);
  int blocks = 0, device = 0;
  cudaGetDevice(&device);
  cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, k, 128, 0);
  cudaLaunchConfig_t config = {};
  config.gridDim = sizes[0]; config.blockDim = 128; config.stream = stream;
  cudaLaunchKernelEx(&config, k, scratch, std::exp2(f));
  cudaFreeAsync(scratch, stream);
  return (int)cudaGetLastError();
}
"""


def submission(text, built):
    return Submission({"kernel.cu": text}, built.library.read_bytes(), built.symbols)


@pytest.fixture
def examined(compile_text):
    """Findings of one file, beside those of a baseline if there is one."""

    def examined(text, baseline=None):
        theirs = None if baseline is None else submission(baseline, compile_text(baseline))
        return examine(submission(text, compile_text(text)), theirs)

    return examined


def names(findings, weight="rejecting"):
    return {finding.symbol for finding in findings if finding.weight == weight}


def test_honest_launcher_has_no_finding(examined):
    assert examined(HONEST) == ()


def test_cheats_are_named(examined):
    findings = examined(CHEAT)
    rejected = names(findings)
    assert {"getenv", "cudaDeviceSynchronize"} <= rejected
    assert any("steady_clock" in symbol for symbol in rejected)
    assert any("_M_start_thread" in symbol for symbol in rejected)
    assert [one.symbol for one in findings if one.rule == "load-time-code"] == ["_ZL5earlyv"]


def test_what_the_baseline_does_is_allowed(examined):
    assert examined(CHEAT, CHEAT) == ()


def test_printing_is_only_suspicious(examined):
    text = (
        '#include <iostream>\nextern "C" void run(int n) { std::cout << n << 1.5 << std::endl; }\n'
    )
    findings = examined(text)
    assert names(findings) == set()
    assert "_ZSt4cout" in names(findings, "suspicious")


@pytest.mark.parametrize(
    ("fields", "symbol"),
    [
        ({"imported_weak": ("dlsym",)}, "dlsym"),
        ({"needed": ("libcublas.so.13",)}, "libcublas.so.13"),
        ({"finalisers": ("_ZL4latev",)}, "_ZL4latev"),
        ({"resolvers": ("pick",)}, "pick"),
        ({"initialisers": ("frame_dummy", "frame_dummy")}, "frame_dummy"),
        ({"imported": ("_ZNSt10filesystem6removeERKNS_7__cxx114pathE",)}, None),
        ({"imported": ("socket",)}, "socket"),
        ({"imported": ("cudaStreamCreate",)}, "cudaStreamCreate"),
    ],
)
def test_single_findings(fields, symbol):
    rejected = names(examine_symbols(dataclasses.replace(NOTHING, **fields), None))
    assert len(rejected) == 1 and (symbol is None or rejected == {symbol})


def test_symbols_agree_with_nm(compile_text, launcher):
    """binutils' nm is the independent source."""
    library = compile_text(launcher).library
    listed = subprocess.run(["nm", "-D", library], capture_output=True, text=True, check=True)
    rows = [line.split()[-2:] for line in listed.stdout.splitlines()]
    symbols = read_symbols(library.read_bytes())
    assert {name.partition("@")[0] for kind, name in rows if kind == "U"} == set(symbols.imported)
    assert {name.partition("@")[0] for kind, name in rows if kind == "w"} == set(
        symbols.imported_weak
    )
    assert {name for kind, name in rows if kind in "TWVBDR"} == set(symbols.exported)


@pytest.mark.parametrize("keep", [0, 5, 63, 64, 1000, -100, -3000])
def test_cut_library_is_an_elf_error(compile_text, launcher, keep):
    data = compile_text(launcher).library.read_bytes()[:keep]
    with pytest.raises(ElfError):
        read_symbols(data)


@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(changes=st.lists(st.tuples(st.floats(0, 1), st.integers(0, 255)), min_size=1, max_size=40))
def test_damaged_library_is_read_or_refused(compile_text, launcher, changes):
    """Whatever bytes a build leaves, reading ends in an answer or an ElfError."""
    data = bytearray(compile_text(launcher).library.read_bytes())
    table = int.from_bytes(data[40:48], "little")
    for index, (place, value) in enumerate(
        changes
    ):  # headers matter most, so every other hit is there
        where = place * 64 if index % 3 == 0 else table + place * (len(data) - table)
        data[min(int(where), len(data) - 1)] = value
    for read in (read_symbols, lambda library: list(embedded_cubins(library))):
        try:
            read(bytes(data))
        except ElfError:
            continue


def test_device_functions_with_external_linkage_are_no_offence(examined):
    """nvcc's stub of such a function imports exit; that alone must not reject honest code."""
    source = """
    __device__ float twice(float x) { return 2.0f * x; }
    __global__ void scale(float* y, const float* x) { y[threadIdx.x] = twice(x[threadIdx.x]); }
    extern "C" int run(float* y, const float* x) { scale<<<1, 32>>>(y, x); return cudaGetLastError(); }
    """
    findings = examined(source)
    assert [(f.symbol, f.weight) for f in findings] == [("exit", "suspicious")]
