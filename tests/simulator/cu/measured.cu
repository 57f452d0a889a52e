// The kernels of machines/h200_measured.json.
#include <flashinfer/attention/cascade.cuh>
#include <flashinfer/norm.cuh>

using namespace flashinfer;

// As SGLang's: one block a row, the exact exponential and division.
__device__ __forceinline__ float silu(float x) { return x / (1.0f + expf(-x)); }

__global__ void silu_kernel(half* __restrict__ out, const half* __restrict__ in, int d) {
  const int64_t row = blockIdx.x;
  const half *x = in + row * 2 * d, *gate = x + d;
#pragma unroll 1
  for (int i = threadIdx.x; i < d / 8; i += blockDim.x) {
    vec_t<float, 8> a, b, r;
    a.cast_load(x + i * 8);
    b.cast_load(gate + i * 8);
#pragma unroll
    for (int k = 0; k < 8; ++k) r[k] = silu(a[k]) * b[k];
    r.cast_store(out + row * d + i * 8);
  }
}

extern "C" {
int silu_and_mul(half* out, half* in, int n, int d) {
  silu_kernel<<<n, min(d / 8, 1024)>>>(out, in, d);
  return cudaGetLastError();
}
int fused_add_rmsnorm(half* x, half* residual, half* w, unsigned n, unsigned d) {
  return norm::FusedAddRMSNorm<half>(x, residual, w, n, d, d, d, 1e-6f, false, 0);
}
int merge_state(half* va, float* sa, half* vb, float* sb, half* v, float* s, unsigned n, unsigned heads, unsigned dim) {
  return MergeState<half, half>(va, sa, vb, sb, v, s, n, heads, dim, 0);
}
}
