// Kernels that are wrong, and launches beyond the limits. Tests look for the lines marked "here".
#include <cassert>
#include <cuda_runtime.h>

__global__ void past_end_kernel(float* y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i <= n) y[i] = i;  // here: past_end
}
__global__ void read_before_kernel(const float* x, float* y) {
  y[threadIdx.x] = x[(int)threadIdx.x - 1];  // here: read_before
}
__global__ void misaligned_kernel(float* y) {
  float4* v = (float4*)(y + threadIdx.x + 1);
  *v = make_float4(1, 2, 3, 4);  // here: misaligned
}
__global__ void shared_kernel(float* y, int n) {
  __shared__ float s[64];
  s[threadIdx.x + n] = 1;  // here: shared
  __syncthreads();
  y[threadIdx.x] = s[threadIdx.x];
}
__global__ void dynamic_shared_kernel(float* y, int n) {
  extern __shared__ float d[];
  d[threadIdx.x + n] = 1;  // here: dynamic_shared
  __syncthreads();
  y[threadIdx.x] = d[threadIdx.x];
}
__global__ void endless_kernel(volatile int* flag) {
  while (*flag == 0) {  // here: endless
  }
}
__global__ void deadlock_kernel(int* y) {
  if (threadIdx.x < 32) asm volatile("bar.sync 1, 64;");  // here: deadlock
  else asm volatile("bar.sync 2, 64;");
  y[threadIdx.x] = 1;
}
__global__ void wrong_mask_kernel(int* y) {
  y[threadIdx.x] = __shfl_sync(0x0000ffffu, (int)threadIdx.x, 0);  // here: wrong_mask
}
__global__ void trap_kernel(int* y) {
  if (y[threadIdx.x] == 3) __trap();  // here: trap
}
__global__ void assert_kernel(int* y) {
  assert(y[threadIdx.x] != 5);  // here: assert
}
__global__ void tensor_kernel(float* y) {
  int d0, d1;
  asm volatile("mma.sync.aligned.m8n8k32.row.col.s32.s4.s4.s32 {%0,%1},{%2},{%2},{%2,%2};"
               : "=r"(d0), "=r"(d1)
               : "r"(0));  // here: tensor
  y[threadIdx.x] = d0 + d1;
}
__global__ void index_kernel(int* y) { y[blockIdx.x] = blockIdx.x; }
__global__ void large_shared_kernel(int* y) {
  extern __shared__ int large[];
  large[threadIdx.x] = threadIdx.x;
  y[threadIdx.x] = large[threadIdx.x];
}

extern "C" {
int past_end(float* y, int n) { past_end_kernel<<<n / 128 + 1, 128>>>(y, n); return cudaGetLastError(); }
int read_before(const float* x, float* y) { read_before_kernel<<<1, 64>>>(x, y); return cudaGetLastError(); }
int misaligned(float* y) { misaligned_kernel<<<1, 32>>>(y); return cudaGetLastError(); }
int shared(float* y, int n) { shared_kernel<<<1, 64>>>(y, n); return cudaGetLastError(); }
int dynamic_shared(float* y, int n) {
  dynamic_shared_kernel<<<1, 64, 64 * 4>>>(y, n);
  return cudaGetLastError();
}
int endless(int* flag) { endless_kernel<<<1, 32>>>(flag); return cudaGetLastError(); }
int deadlock(int* y) { deadlock_kernel<<<1, 64>>>(y); return cudaGetLastError(); }
int wrong_mask(int* y) { wrong_mask_kernel<<<1, 32>>>(y); return cudaGetLastError(); }
int trap(int* y) { trap_kernel<<<1, 32>>>(y); return cudaGetLastError(); }
int asserted(int* y) { assert_kernel<<<1, 32>>>(y); return cudaGetLastError(); }
int tensor(float* y) { tensor_kernel<<<1, 32>>>(y); return cudaGetLastError(); }
int indices(int* y, int n) { index_kernel<<<n, 32>>>(y); return cudaGetLastError(); }
int many_threads(int* y, int threads) { index_kernel<<<1, threads>>>(y); return cudaGetLastError(); }
int large_shared(int* y, int bytes, int opt_in) {
  if (opt_in) {
    int error = cudaFuncSetAttribute(large_shared_kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);
    if (error) return error;
  }
  large_shared_kernel<<<1, 32, bytes>>>(y);
  return cudaGetLastError();
}
int extended(int* y, int n, int cluster) {
  cudaLaunchConfig_t config = {};
  config.gridDim = n;
  config.blockDim = 32;
  cudaLaunchAttribute attributes[2];
  attributes[0].id = cudaLaunchAttributePriority;
  attributes[0].val.priority = 0;
  attributes[1].id = cudaLaunchAttributeClusterDimension;
  attributes[1].val.clusterDim.x = cluster;
  attributes[1].val.clusterDim.y = attributes[1].val.clusterDim.z = 1;
  config.attrs = attributes;
  config.numAttrs = cluster > 1 ? 2 : 1;
  return cudaLaunchKernelEx(&config, index_kernel, y);
}
int queries(int* out) {
  cudaDeviceProp properties;
  cudaGetDeviceProperties(&properties, 0);
  cudaFuncAttributes attributes;
  cudaFuncGetAttributes(&attributes, shared_kernel);
  out[0] = properties.multiProcessorCount;
  cudaDeviceGetAttribute(&out[1], cudaDevAttrMultiProcessorCount, 0);
  out[2] = attributes.sharedSizeBytes;
  cudaOccupancyMaxActiveBlocksPerMultiprocessor(&out[3], index_kernel, 1024, 0);
  out[4] = properties.major * 10 + properties.minor;
  out[5] = properties.sharedMemPerBlockOptin;
  cudaStream_t stream;
  cudaStreamCreate(&stream);
  cudaEvent_t event;
  cudaEventCreate(&event);
  cudaEventRecord(event, stream);
  out[6] = cudaStreamSynchronize(stream);
  cudaEventDestroy(event);
  return cudaStreamDestroy(stream);
}
const char* error_name(int error) { return cudaGetErrorName((cudaError_t)error); }
int copy_on_device(int n) {
  int *a, *b, host[4] = {1, 2, 3, 4}, back[4] = {0, 0, 0, 0};
  if (cudaMalloc(&a, sizeof host) || cudaMallocAsync(&b, sizeof host, 0)) return -1;
  cudaMemcpy(a, host, sizeof host, cudaMemcpyHostToDevice);
  if (cudaMemcpyAsync(b, a, n, cudaMemcpyDeviceToDevice)) return cudaGetLastError();
  cudaMemcpy(back, b, sizeof host, cudaMemcpyDeviceToHost);
  cudaFree(a);
  cudaFreeAsync(b, 0);
  return back[0] + back[3] == 5 ? 0 : -2;
}
}
