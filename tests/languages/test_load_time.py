"""Code that runs on loading is told by what it calls, whatever its name."""

import pytest

from astra_kernels.languages.cuda.build import build
from astra_kernels.languages.cuda.load_time import load_time_findings, read_load_time
from astra_kernels.languages.cuda.outcome import Built
from astra_kernels.languages.cuda.request import BuildRequest

KERNEL = """
__global__ void k(float* o) { o[threadIdx.x] = 1; }
extern "C" int run(float* o) { k<<<1, 32>>>(o); return cudaGetLastError(); }
"""
FORGED_NAME = """
static int early;
__attribute__((constructor)) static void _ZL24__sti____cudaRegisterAllv() { early = 1; }
extern "C" __attribute__((constructor)) void forged() __asm__("_ZL24__sti____cudaRegisterAllv");
extern "C" void forged() { early = 2; }
int last() { return early; }
"""
FORGED_CONTENT = """
extern "C" void** __cudaRegisterFatBinary(void*);
static const char image[64] = "not a fat binary";
__attribute__((section(".nvFatBinSegment"))) static struct { int a, b; const void* c; void* d; }
    wrapper = {0x466243b1, 1, image, 0};
__attribute__((constructor)) static void more() { __cudaRegisterFatBinary(&wrapper); }
"""


@pytest.fixture
def read(toolchain, build_cache):
    def read(**sources):
        named = {name.replace("_", "."): text for name, text in sources.items()}
        built = build(BuildRequest(sources=named), toolchain, build_cache)
        assert isinstance(built, Built), built.log
        return read_load_time(built.library.read_bytes())

    return read


def rejected(candidate, cuda_files, baseline=None):
    findings = load_time_findings(candidate, cuda_files, baseline)
    return {f.symbol: f.reason for f in findings if f.weight == "rejecting"}


def test_one_constructor_for_each_file(read):
    found = read(a_cu=KERNEL, b_cu="__global__ void other() {}", c_cpp="int x;", d_cu="int y;")
    assert sum(one.registers for one in found.constructors) == 3
    assert {len(one.wrappers) for one in found.constructors if one.registers} == {1}
    assert list(load_time_findings(found, 3, None)) == []


def test_variables_of_every_kind_are_registered_and_nothing_else(read):
    text = KERNEL + "__constant__ int c[4]; __device__ int d[4]; __managed__ int m; texture_t t;"
    found = read(a_cu=text.replace("texture_t t;", ""))
    assert list(load_time_findings(found, 1, None)) == []


def test_a_forged_name_helps_nothing(read):
    found = read(a_cu=KERNEL, b_cpp=FORGED_NAME)
    reasons = rejected(found, 1)
    assert reasons and all("registers no kernels" in text for text in reasons.values())


def test_forged_registration_is_one_too_many(read):
    assert "more registration constructors" in "".join(
        rejected(read(a_cu=KERNEL, b_cpp=FORGED_CONTENT), 1).values()
    )


def test_registration_that_does_more(read):
    more = FORGED_CONTENT.replace("&wrapper);", "&wrapper); abort();").replace(
        "extern", 'extern "C" void abort();\nextern', 1
    )
    assert "calls abort" in "".join(rejected(read(a_cu=KERNEL, b_cpp=more), 9).values())


def test_an_atexit_of_its_own(read):
    """nvcc's constructor calls atexit; one that the candidate defines would run then."""
    own = 'int early; extern "C" __attribute__((visibility("hidden"))) int atexit(void (*)()) { return ++early; }'
    reasons = rejected(read(a_cu=KERNEL, b_cpp=own), 1)
    print(reasons)
    assert "atexit of its own" in "".join(reasons.values())


@pytest.mark.parametrize(
    ("text", "weight"),
    [
        ("#include <iostream>\n", None),
        ("#include <vector>\nstatic std::vector<int> sizes{1, 2, 3};", "suspicious"),
        ("static int count = [] { int n; cudaGetDeviceCount(&n); return n; }();", "rejecting"),
    ],
)
def test_objects_outside_functions(read, text, weight):
    use = "int use() { return 0; }" if "iostream" in text else ""
    found = read(a_cu=f"{text}\n{use}{KERNEL}")
    assert [f.weight for f in load_time_findings(found, 1, None)] == ([weight] if weight else [])
    assert list(load_time_findings(found, 1, found)) == []


@pytest.mark.parametrize("name", ["cudaLaunchKernel", "__cudaRegisterFunction", "cuLaunchKernel"])
def test_runtime_functions_of_its_own(read, name):
    own = f'extern "C" int {name}() {{ return 0; }}'
    assert name in rejected(read(a_cu=KERNEL, b_cpp=own), 1)


def test_code_in_the_startup_section(read):
    own = 'asm(".section .init\\n.skip 64, 0x90\\n.text");'
    assert ".init" in rejected(read(a_cu=KERNEL, b_cpp=own), 1)
