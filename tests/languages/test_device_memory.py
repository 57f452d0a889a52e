"""Device memory that outlives a call is counted in the machine code, and compared with the baseline's."""

import pytest

from astra_kernels.languages.cuda.device_memory import device_memory_findings, kept_variables

KERNEL = """
// variables
__global__ void k(float* o, int n) {
  // use
  o[threadIdx.x] = n;
}
extern "C" int run(float* o) { k<<<1, 32>>>(o, 1); return cudaGetLastError(); }
"""


@pytest.fixture
def kept(compile_text):
    def kept(variables, use):
        text = KERNEL.replace("// variables", variables).replace("// use", use)
        return kept_variables(compile_text(text).library.read_bytes())

    return kept


def test_sizes_are_those_of_the_declarations(kept):
    found = kept(
        "__device__ int zero[300]; __managed__ int shared_with_host[4]; static __device__ int full[2] = {1, 2};",
        "zero[n] = n; shared_with_host[n & 3] = n; full[n & 1] = n;",
    )
    assert {one.name: one.size_bytes for one in found} == {
        "zero": 1200,
        "shared_with_host": 16,
        "full": 8,
    }


def test_constants_shared_memory_and_texts_are_nothing(kept):
    found = kept(
        "#include <cstdio>\n__constant__ int table[9000];",
        'static __shared__ float s[64]; s[n] = n; if (n < 0) printf("%d", table[n] + (int)s[n]);',
    )
    assert found == ()


@pytest.mark.parametrize(
    ("ints", "weight"), [(0, None), (1, "suspicious"), (1024, "suspicious"), (1025, "rejecting")]
)
def test_the_limit(kept, ints, weight):
    found = kept(f"__device__ int memo[{ints}];", "memo[n] = n;") if ints else kept("", "")
    findings = list(device_memory_findings(found, ()))
    assert [one.weight for one in findings] == ([weight] if weight else [])
    assert list(device_memory_findings(found, found)) == []


def test_as_much_as_the_baseline_is_allowed(kept):
    more = kept("__device__ int memo[3000];", "memo[n] = n;")
    less = kept("__device__ int counts[2000];", "counts[n] = n;")
    assert list(device_memory_findings(less, more)) == []
    assert [one.symbol for one in device_memory_findings(more, less)] == ["memo"]
