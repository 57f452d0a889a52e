// What host launchers ask of the CUDA runtime beside a plain launch.
#include <cooperative_groups.h>
#include <cuda_runtime.h>

__global__ void add_one(int* y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] += 1;
}
__global__ void __launch_bounds__(256) bounded(int* y) { y[threadIdx.x] = blockDim.x; }
__global__ void waits(int* y) {
  cudaGridDependencySynchronize();
  y[threadIdx.x] += 1;
  cudaTriggerProgrammaticLaunchCompletion();
}
__global__ void together(int* y) {
  auto grid = cooperative_groups::this_grid();
  y[blockIdx.x] = blockIdx.x;
  grid.sync();
  if (threadIdx.x == 0) y[gridDim.x + blockIdx.x] = y[(blockIdx.x + 1) % gridDim.x];
}
__global__ void shared(int* y, int count) {
  extern __shared__ int s[];
  for (int i = threadIdx.x; i < count; i += blockDim.x) s[i] = i;
  __syncthreads();
  y[threadIdx.x] = s[count - 1];
}

extern "C" {
int tuned(int* y, int n, int* out) {
  int least = 0, block = 0, blocks = 0;
  if (int e = cudaOccupancyMaxPotentialBlockSize(&least, &block, add_one, 0, 0)) return e;
  if (int e = cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, add_one, block, 0)) return e;
  add_one<<<(n + block - 1) / block, block>>>(y, n);
  out[0] = block;
  out[1] = least;
  out[2] = blocks;
  return cudaGetLastError();
}
int variable(int* out) {
  return cudaOccupancyMaxPotentialBlockSizeVariableSMem(&out[0], &out[1], shared, [](int b) { return size_t(b) * 64; });
}
int overlapping(int* y) {
  cudaLaunchConfig_t config = {};
  config.gridDim = 1;
  config.blockDim = 32;
  cudaLaunchAttribute attribute;
  attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  attribute.val.programmaticStreamSerializationAllowed = 1;
  config.attrs = &attribute;
  config.numAttrs = 1;
  return cudaLaunchKernelEx(&config, waits, y);
}
int cooperates(int* y, int blocks) {
  void* arguments[] = {&y};
  cudaLaunchCooperativeKernel((void*)together, blocks, 32, arguments, 0, 0);
  return cudaGetLastError();
}
int shares(int* y, int bytes, int allowed) {
  if (allowed)
    if (cudaFuncSetAttribute(shared, cudaFuncAttributeMaxDynamicSharedMemorySize, allowed)) return cudaGetLastError();
  shared<<<1, 32, bytes>>>(y, bytes / 4);
  return cudaGetLastError();
}
int grid(int* y, unsigned x, unsigned yy, unsigned z) {
  add_one<<<dim3(x, yy, z), 1>>>(y, 0);
  return cudaGetLastError();
}
int block(int* y, unsigned x, unsigned yy, unsigned z) {
  add_one<<<1, dim3(x, yy, z)>>>(y, 0);
  return cudaGetLastError();
}
int beyond_bounds(int* y, int threads) {
  bounded<<<1, threads>>>(y);
  return cudaGetLastError();
}
int attributes(int* out) {
  cudaFuncAttributes a;
  if (int e = cudaFuncGetAttributes(&a, bounded)) return e;
  out[0] = a.maxThreadsPerBlock;
  out[1] = a.numRegs;
  out[2] = a.ptxVersion;
  out[3] = a.maxDynamicSharedSizeBytes;
  cudaDeviceProp p;
  if (int e = cudaGetDeviceProperties(&p, 0)) return e;
  int n = 4;
  auto both = [&](int property, cudaDeviceAttr attribute) {
    out[n++] = property;
    cudaDeviceGetAttribute(&out[n++], attribute, 0);
  };
  both(p.multiProcessorCount, cudaDevAttrMultiProcessorCount);
  both(p.maxThreadsPerMultiProcessor, cudaDevAttrMaxThreadsPerMultiProcessor);
  both(p.maxThreadsPerBlock, cudaDevAttrMaxThreadsPerBlock);
  both(p.sharedMemPerBlock, cudaDevAttrMaxSharedMemoryPerBlock);
  both(p.sharedMemPerBlockOptin, cudaDevAttrMaxSharedMemoryPerBlockOptin);
  both(p.sharedMemPerMultiprocessor, cudaDevAttrMaxSharedMemoryPerMultiprocessor);
  both(p.regsPerBlock, cudaDevAttrMaxRegistersPerBlock);
  both(p.regsPerMultiprocessor, cudaDevAttrMaxRegistersPerMultiprocessor);
  both(p.warpSize, cudaDevAttrWarpSize);
  both(p.l2CacheSize, cudaDevAttrL2CacheSize);
  both(p.major, cudaDevAttrComputeCapabilityMajor);
  both(p.minor, cudaDevAttrComputeCapabilityMinor);
  both(p.cooperativeLaunch, cudaDevAttrCooperativeLaunch);
  both(p.maxBlocksPerMultiProcessor, cudaDevAttrMaxBlocksPerMultiprocessor);
  both(p.reservedSharedMemPerBlock, cudaDevAttrReservedSharedMemoryPerBlock);
  both(p.memoryBusWidth, cudaDevAttrGlobalMemoryBusWidth);
  both(p.concurrentKernels, cudaDevAttrConcurrentKernels);
  both(p.unifiedAddressing, cudaDevAttrUnifiedAddressing);
  both(p.maxGridSize[0], cudaDevAttrMaxGridDimX);
  both(p.maxGridSize[1], cudaDevAttrMaxGridDimY);
  both(p.maxThreadsDim[2], cudaDevAttrMaxBlockDimZ);
  both(p.totalConstMem, cudaDevAttrTotalConstantMemory);
  return cudaSuccess;
}
int streams(int* y, int n) {
  cudaStream_t s;
  cudaEvent_t e;
  int* scratch;
  if (int r = cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking)) return r;
  if (int r = cudaEventCreateWithFlags(&e, cudaEventDisableTiming)) return r;
  if (int r = cudaMallocAsync(&scratch, n * sizeof(int), s)) return r;
  cudaMemsetAsync(scratch, 0, n * sizeof(int), s);
  add_one<<<(n + 127) / 128, 128, 0, s>>>(scratch, n);
  cudaEventRecord(e, s);
  cudaStreamWaitEvent(0, e, 0);
  cudaMemcpyAsync(y, scratch, n * sizeof(int), cudaMemcpyDeviceToDevice, s);
  cudaFreeAsync(scratch, s);
  if (int r = cudaEventSynchronize(e)) return r;
  if (int r = cudaStreamQuery(s)) return r;
  cudaEventDestroy(e);
  cudaStreamSynchronize(s);
  return cudaStreamDestroy(s);
}
}
