// Blocks of ordinary launches that wait for one another, which the hardware lets them as long as all are resident.
#include <cuda_runtime.h>

__global__ void barrier_kernel(unsigned* count, int* a, int* y, int by_exchange) {
  int t = blockIdx.x * blockDim.x + threadIdx.x;
  a[t] = t;
  __syncthreads();
  if (threadIdx.x == 0) {
    __threadfence();
    atomicAdd(count, 1);
    if (by_exchange) while (atomicCAS(count, ~0u, 0u) < gridDim.x);
    else while (*(volatile unsigned*)count < gridDim.x);
    __threadfence();
  }
  __syncthreads();
  y[t] = a[(t + 37) % (gridDim.x * blockDim.x)];
}
// Block 0 waits for a flag that the last block sets.
__global__ void flag_kernel(volatile int* flag, int* a, int* y) {
  if (blockIdx.x == 0) {
    if (threadIdx.x == 0) while (flag[0] == 0);
    __threadfence();
    __syncthreads();
    y[threadIdx.x] = ((volatile int*)a)[threadIdx.x];
  } else if (blockIdx.x == gridDim.x - 1) {
    a[threadIdx.x] = threadIdx.x + 1;
    __threadfence();
    __syncthreads();
    if (threadIdx.x == 0) flag[0] = 1;
  }
}
// A lookback: every block waits for the one before it.
__global__ void lookback_kernel(int* sums, int* y) {
  if (threadIdx.x == 0) {
    int before = 0;
    if (blockIdx.x > 0) while ((before = ((volatile int*)sums)[blockIdx.x - 1]) == 0);
    __threadfence();
    ((volatile int*)sums)[blockIdx.x] = before + 1;
    y[blockIdx.x] = before + 1;
  }
}
// Waits for what never comes, but not for ever: by a count, or by the clock.
__global__ void patient_kernel(volatile int* flag, int* y, int tries, int by_clock) {
  const long long start = clock64();
  for (int i = 0; by_clock ? clock64() - start < tries : i < tries; ++i)
    if (flag[0]) break;
  y[blockIdx.x] = 1;
}
extern "C" {
int patient(int* flag, int* y, int tries, int by_clock) {
  patient_kernel<<<3, 32>>>(flag, y, tries, by_clock);
  return cudaGetLastError();
}
int barrier(unsigned* count, int* a, int* y, int blocks, int by_exchange) {
  barrier_kernel<<<blocks, 64>>>(count, a, y, by_exchange);
  return cudaGetLastError();
}
int crowded(unsigned* count, int* a, int* y, int blocks) {
  cudaFuncSetAttribute(barrier_kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, 200 << 10);
  barrier_kernel<<<blocks, 64, 200 << 10>>>(count, a, y, 0);
  return cudaGetLastError();
}
int flag(int* flag, int* a, int* y, int blocks) {
  flag_kernel<<<blocks, 64>>>(flag, a, y);
  return cudaGetLastError();
}
int lookback(int* sums, int* y, int blocks) {
  lookback_kernel<<<blocks, 32>>>(sums, y);
  return cudaGetLastError();
}
}
