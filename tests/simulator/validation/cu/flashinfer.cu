// Three kernels of FlashInfer through its own host launchers, where its headers are installed.
#include <flashinfer/activation.cuh>
#include <flashinfer/attention/cascade.cuh>
#include <flashinfer/norm.cuh>

using namespace flashinfer;

__device__ __forceinline__ float silu(const float& val) { return val / (1.0f + __expf(-val)); }

extern "C" int flashinfer_silu(half* out, half* in, int n, int d, int block, int way, cudaStream_t s) {
  activation::act_and_mul_kernel<half, silu, 8><<<n, block, 0, s>>>(out, in, d);
  return cudaGetLastError();
}
extern "C" int flashinfer_rmsnorm(half* x, half* residual, half* w, int n, int d, float eps, int block, int way,
                                  cudaStream_t s) {
  return norm::FusedAddRMSNorm<half>(x, residual, w, n, d, d, d, eps, false, s);
}
extern "C" int flashinfer_merge(half* va, float* sa, half* vb, float* sb, half* v, float* lse, int n, int heads,
                                int dim, int block, int way, cudaStream_t s) {
  return MergeState<half, half>(va, sa, vb, sb, v, lse, n, heads, dim, s);
}
