// Kernels that overlap the one before them, work on several streams, and reads of what nobody wrote. Tests look
// for the lines marked "here".
#include <cuda_runtime.h>

__constant__ int offset[2] = {7, 8};
__device__ int variable[2] = {1, 2};

__global__ void waits_kernel(int* y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  int ready = n + offset[threadIdx.x & 1];
  cudaTriggerProgrammaticLaunchCompletion();
  cudaGridDependencySynchronize();
  if (i < n) y[i] = y[i] + ready;
}
__global__ void reads_early_kernel(int* y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  int before = i < n ? *(volatile int*)(y + i) : 0;  // here: reads_early
  cudaGridDependencySynchronize();
  if (i < n) y[i] = before + 1;
}
__global__ void writes_early_kernel(int* y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) *(volatile int*)(y + i) = i;  // here: writes_early
  cudaGridDependencySynchronize();
}
__global__ void never_waits_kernel(int* y, int n) {
  if (threadIdx.x < n) y[threadIdx.x] = 1;  // here: never_waits
}
__global__ void one_side_waits_kernel(int* y, int n) {
  if (threadIdx.x & 1) cudaGridDependencySynchronize();
  if (threadIdx.x < n) y[threadIdx.x] = 1;  // here: one_side_waits
}
__global__ void one_waits_for_all_kernel(int* y, int n) {
  if (threadIdx.x == 40) cudaGridDependencySynchronize();
  __syncthreads();
  if (threadIdx.x < n) y[threadIdx.x] = 1;
}
__global__ void copies_early_kernel(int* y, int n) {
  __shared__ int s[4];
  unsigned to = __cvta_generic_to_shared(s);
  asm volatile("cp.async.ca.shared.global [%0], [%1], 16;" ::"r"(to), "l"(y));  // here: copies_early
  asm volatile("cp.async.wait_all;");
  cudaGridDependencySynchronize();
  y[threadIdx.x % n] = s[0];
}
__global__ void variable_read_kernel(int* y, int n) {
  int early = *(volatile int*)(variable + (threadIdx.x & 1));  // here: variable
  cudaGridDependencySynchronize();
  if (threadIdx.x < n) y[threadIdx.x] = early;
}
__global__ void local_and_shared_kernel(int* y, int n) {
  __shared__ int s[64];
  volatile int mine[8];
  for (int i = 0; i < 8; ++i) mine[(i + n) & 7] = i;
  s[threadIdx.x] = mine[(threadIdx.x + n) & 7];
  __syncthreads();
  int early = s[threadIdx.x ^ 1];
  cudaGridDependencySynchronize();
  if (threadIdx.x < n) y[threadIdx.x] = early;
}
__global__ void unwritten_shared_kernel(int* y) {
  __shared__ volatile int s[64];
  y[blockIdx.x * 64 + threadIdx.x] = s[threadIdx.x];
}
__global__ void unwritten_local_kernel(int* y, int n) {
  volatile int mine[8];
  if (n > 8) mine[n & 7] = 1;
  y[threadIdx.x] = mine[threadIdx.x & 7];
}
__global__ void copy_kernel(int* y, const int* x) { y[threadIdx.x] = x[threadIdx.x]; }

namespace {

template <class Kernel>
int launch(Kernel kernel, int* y, int n, int overlap) {
  cudaLaunchConfig_t config = {};
  config.gridDim = 2;
  config.blockDim = 64;
  cudaLaunchAttribute attribute;
  attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  attribute.val.programmaticStreamSerializationAllowed = overlap;
  config.attrs = &attribute;
  config.numAttrs = 1;
  return cudaLaunchKernelEx(&config, kernel, y, n);
}

}  // namespace

#define LAUNCHER(name) \
  int name(int* y, int n, int overlap) { return launch(name##_kernel, y, n, overlap); }

extern "C" {
LAUNCHER(waits)
LAUNCHER(reads_early)
LAUNCHER(writes_early)
LAUNCHER(never_waits)
LAUNCHER(one_side_waits)
LAUNCHER(one_waits_for_all)
LAUNCHER(copies_early)
LAUNCHER(variable_read)
LAUNCHER(local_and_shared)

int unwritten_shared(int* y) {
  cudaGetLastError();  // of the launches before
  unwritten_shared_kernel<<<4, 64>>>(y);
  return cudaGetLastError();
}
int unwritten_local(int* y, int n) {
  cudaGetLastError();
  unwritten_local_kernel<<<1, 64>>>(y, n);
  return cudaGetLastError();
}
int unwritten_global(int* y) {
  int* x;
  if (int error = cudaMallocAsync(&x, 64 * sizeof(int), 0)) return error;
  copy_kernel<<<1, 64>>>(y, x);
  return cudaFreeAsync(x, 0);
}

// One piece of work on one stream: 0 the given one, 1 null, 2 legacy, 3 the thread's own, 4 a new one.
int work(int* y, int what, int where, cudaStream_t given) {
  cudaStream_t own, on = given;
  if (where == 1) on = 0;
  if (where == 2) on = cudaStreamLegacy;
  if (where == 3) on = cudaStreamPerThread;
  if (where == 4 && cudaStreamCreateWithFlags(&own, cudaStreamNonBlocking) == cudaSuccess) on = own;
  int* p = nullptr;
  static int host[64];
  cudaGetLastError();
  switch (what) {
    case 0: never_waits_kernel<<<1, 64, 0, on>>>(y, 64); return cudaGetLastError();
    case 1: return cudaMemsetAsync(y, 1, 64 * sizeof(int), on);
    case 2: return cudaMemcpyAsync(y, host, 64 * sizeof(int), cudaMemcpyHostToDevice, on);
    case 3: return cudaMallocAsync(&p, 64, on);
    case 4: {
      int error = cudaMallocAsync(&p, 64, given);
      return error ? error : cudaFreeAsync(p, on);
    }
    case 5: {
      cudaLaunchConfig_t config = {};
      config.gridDim = 1;
      config.blockDim = 64;
      config.stream = on;
      return cudaLaunchKernelEx(&config, never_waits_kernel, y, 64);
    }
    case 6: return cudaMemset(y, 1, 64 * sizeof(int));
    case 7: return cudaMemcpy(y, host, 64 * sizeof(int), cudaMemcpyHostToDevice);
    case 8: return cudaMemcpyToSymbol(variable, host, 8);
    case 9: return cudaStreamDestroy(on);
  }
  return 0;
}
}
