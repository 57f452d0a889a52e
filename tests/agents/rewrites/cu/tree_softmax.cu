// Two reduction trees in one buffer of dynamic shared memory; every thread reads the results.
#include <cuda_runtime.h>

constexpr int kThreads = 128;

__global__ void tree_softmax_kernel(const float* __restrict__ x, float* __restrict__ y, int n) {
  extern __shared__ float sdata[];
  const unsigned int tid = threadIdx.x;
  const float* row = x + (size_t)blockIdx.x * n;
  float peak = -INFINITY;
  for (int i = tid; i < n; i += blockDim.x) peak = fmaxf(peak, row[i]);
  sdata[tid] = peak;
  __syncthreads();
  for (unsigned int s = blockDim.x / 2; s > 0; s >>= 1) {
    if (tid < s) {
      sdata[tid] = fmaxf(sdata[tid], sdata[tid + s]);
    }
    __syncthreads();
  }
  peak = sdata[0];
  __syncthreads();
  float sum = 0.0f;
  for (int i = tid; i < n; i += blockDim.x) sum += expf(row[i] - peak);
  sdata[tid] = sum;
  __syncthreads();
  for (unsigned int s = blockDim.x / 2; s > 0; s >>= 1) {
    if (tid < s) {
      sdata[tid] += sdata[tid + s];
    }
    __syncthreads();
  }
  for (int i = tid; i < n; i += blockDim.x) {
    y[(size_t)blockIdx.x * n + i] = expf(row[i] - peak) / sdata[0];
  }
}

extern "C" int tree_softmax(const float* x, float* y, int rows, int n, cudaStream_t stream) {
  tree_softmax_kernel<<<rows, kThreads, kThreads * sizeof(float), stream>>>(x, y, n);
  return cudaGetLastError();
}
