// In place; a while loop takes the exponential of the row's gate for every element.
#include <cuda_runtime.h>

__global__ void gated_residual_kernel(float* __restrict__ x, const float* __restrict__ branch,
                                      const float* __restrict__ gates, int n, float temperature) {
  const float gate = gates[blockIdx.x];
  float* row = x + blockIdx.x * n;
  int i = threadIdx.x;
  while (i < n) {
    row[i] += branch[blockIdx.x * n + i] * expf(-gate / temperature);
    i += blockDim.x;
  }
}

extern "C" int gated_residual(float* x, const float* branch, const float* gates, int rows, int n,
                              float temperature, cudaStream_t stream) {
  gated_residual_kernel<<<rows, 96, 0, stream>>>(x, branch, gates, n, temperature);
  return cudaGetLastError();
}
