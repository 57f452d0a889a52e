"""The compiler of this machine."""

import os

import pytest

from astra_kernels.errors import ToolchainNotFound
from astra_kernels.languages.cuda.build import build
from astra_kernels.languages.cuda.request import BuildRequest
from astra_kernels.languages.cuda.toolchain import find_toolchain

LAUNCHER = """
#include <cuda_fp16.h>
__global__ void scale(const half2* __restrict__ in, half2* __restrict__ out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = __hmul2(in[i], __float2half2_rn(2.f));
}
extern "C" int run(const void* in, void* out, int n, cudaStream_t stream) {
  scale<<<(n + 255) / 256, 256, 0, stream>>>((const half2*)in, (half2*)out, n);
  return (int)cudaGetLastError();
}
"""


@pytest.fixture(scope="session")
def toolchain():
    try:
        return find_toolchain(os.environ)
    except ToolchainNotFound as reason:
        pytest.skip(str(reason))


@pytest.fixture(scope="session")
def compile_text(toolchain, build_cache):
    """Builds one file, `kernel.cu`."""

    def compile_text(text, *flags, **fields):
        deadline_s = fields.pop("deadline_s", 100.0)
        request = BuildRequest(sources={"kernel.cu": text}, flags=flags, **fields)
        return build(request, toolchain, build_cache, deadline_s)

    return compile_text


@pytest.fixture
def launcher():
    return LAUNCHER
