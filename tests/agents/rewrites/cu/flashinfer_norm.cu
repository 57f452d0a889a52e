#include <flashinfer/norm.cuh>

extern "C" int flashinfer_rmsnorm(half* input, half* weight, half* output, int rows, int d, float eps,
                                  cudaStream_t stream) {
  return flashinfer::norm::RMSNorm<half>(input, weight, output, rows, d, d, d, eps, false, stream);
}
