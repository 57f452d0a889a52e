#include <flashinfer/norm.cuh>

extern "C" int flashinfer_fused_add_rmsnorm(half* input, half* residual, half* weight, int rows,
                                            int d, float eps, cudaStream_t stream) {
  return flashinfer::norm::FusedAddRMSNorm<half>(input, residual, weight, rows, d, d, d, eps, false,
                                                 stream);
}
