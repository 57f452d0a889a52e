// Three kernels of FlashInfer through its own host launchers.
#include <flashinfer/activation.cuh>
#include <flashinfer/attention/cascade.cuh>
#include <flashinfer/norm.cuh>

using namespace flashinfer;

__device__ __forceinline__ float silu(const float& val) { return val / (1.0f + __expf(-val)); }

extern "C" int silu_and_mul(half* out, half* in, unsigned n, int d) {
  activation::act_and_mul_kernel<half, silu, 8><<<n, min(d / 8, 256)>>>(out, in, d);
  return cudaGetLastError();
}
extern "C" int fused_add_rmsnorm(half* x, half* residual, half* w, unsigned n, unsigned d, float eps) {
  return norm::FusedAddRMSNorm<half>(x, residual, w, n, d, d, d, eps, false, 0);
}
extern "C" int merge_state(half* va, float* sa, half* vb, float* sb, half* v, float* s, unsigned n, unsigned heads,
                           unsigned dim) {
  return MergeState<half, half>(va, sa, vb, sb, v, s, n, heads, dim, 0);
}
