"""The two honest programs that rogues are edits of: a gated activation, and an in-place residual norm."""

SILU = """\
#include <cuda_fp16.h>
#include <cstdint>
// includes

// device code
__global__ void silu(__half* __restrict__ out, const __half* __restrict__ in, int64_t hidden) {
  int64_t row = blockIdx.x;
  // kernel start
  for (int64_t i = threadIdx.x; i < hidden; i += blockDim.x) {
    float x = __half2float(in[row * 2 * hidden + i]);
    float gate = __half2float(in[row * 2 * hidden + hidden + i]);
    out[row * hidden + i] = __float2half_rn(x / (1.0f + expf(-x)) * gate);
  }
}

// host code
extern "C" int silu_and_mul(void* out, void* in, int64_t tokens, int64_t hidden, cudaStream_t stream) {
  // before the launch
  silu<<<static_cast<unsigned>(tokens), 128, 0, stream>>>(
      static_cast<__half*>(out), static_cast<const __half*>(in), hidden);
  // after the launch
  return cudaGetLastError();
}
"""

SILU_REFERENCE = """\
import numpy as np


def run(input):
    x, gate = np.split(input.astype(np.float32), 2, axis=1)
    return (x / (1 + np.exp(-x)) * gate).astype(input.dtype)


def reference_fp64(input):
    x, gate = np.split(input.astype(np.float64), 2, axis=1)
    return x / (1 + np.exp(-x)) * gate
"""

NORM = """\
#include <cuda_fp16.h>
#include <cstdint>

__global__ void norm(__half* x, __half* residual, const __half* weight, float eps, int64_t hidden) {
  __shared__ float partial[128];
  int64_t row = blockIdx.x * hidden;
  float sum = 0;
  for (int64_t i = threadIdx.x; i < hidden; i += blockDim.x) {
    float s = __half2float(x[row + i]) + __half2float(residual[row + i]);
    sum += s * s;
  }
  partial[threadIdx.x] = sum;
  __syncthreads();
  for (int half = 64; half > 0; half /= 2) {
    if (threadIdx.x < half) partial[threadIdx.x] += partial[threadIdx.x + half];
    __syncthreads();
  }
  float scale = rsqrtf(partial[0] / hidden + eps);
  for (int64_t i = threadIdx.x; i < hidden; i += blockDim.x) {
    float s = __half2float(x[row + i]) + __half2float(residual[row + i]);
    residual[row + i] = __float2half_rn(s);
    x[row + i] = __float2half_rn(s * scale * __half2float(weight[i]));
  }
}

extern "C" int norm_in_place(void* x, void* residual, void* weight, float eps, int64_t tokens,
                             int64_t hidden, void* workspace, cudaStream_t stream) {
  norm<<<static_cast<unsigned>(tokens), 128, 0, stream>>>(
      static_cast<__half*>(x), static_cast<__half*>(residual), static_cast<const __half*>(weight),
      eps, hidden);
  return cudaGetLastError();
}
"""

NORM_REFERENCE = """\
import numpy as np


def run(x, residual, weight, eps):
    s = x.astype(np.float64) + residual.astype(np.float64)
    scaled = s / np.sqrt(np.mean(s * s, axis=1, keepdims=True) + float(eps)) * weight.astype(np.float64)
    return scaled.astype(x.dtype), s.astype(x.dtype)


def reference_fp64(x, residual, weight, eps):
    s = x.astype(np.float64) + residual.astype(np.float64)
    return s / np.sqrt(np.mean(s * s, axis=1, keepdims=True) + float(eps)) * weight.astype(np.float64), s
"""
SOURCES = {"silu": SILU, "norm": NORM}
