// Kernels whose blocks wait for each other.
#include <cooperative_groups.h>
#include <cuda_runtime.h>

namespace cg = cooperative_groups;

// One sum of a block each, then the total of them in every block.
__global__ void reduce_kernel(const int* x, int n, int* partial, int* y) {
  __shared__ int sum;
  if (threadIdx.x == 0) sum = 0;
  __syncthreads();
  int mine = 0;
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) mine += x[i];
  atomicAdd(&sum, mine);
  __syncthreads();
  if (threadIdx.x == 0) partial[blockIdx.x] = sum;
  cg::this_grid().sync();
  int total = 0;
  for (int b = threadIdx.x; b < gridDim.x; b += blockDim.x) total += partial[b];
  if (threadIdx.x == 0) sum = 0;
  __syncthreads();
  atomicAdd(&sum, total);
  __syncthreads();
  if (threadIdx.x == 0) y[blockIdx.x] = sum + partial[blockIdx.x];
}

// In each round every block takes its right neighbour's value of the round before. Registers, shared and
// local memory live through all of them; block 0 takes `slow` times longer than the others.
__global__ void rotate_kernel(volatile int* a, volatile int* b, int rounds, int slow, int* y) {
  extern __shared__ int kept[];
  kept[threadIdx.x] = blockIdx.x * 100 + threadIdx.x;
  volatile int local[4] = {int(blockIdx.x), 1, 2, 3};
  cg::grid_group grid = cg::this_grid();
  unsigned work = blockIdx.x;
  for (int r = 0; r < rounds; ++r) {
    for (int i = 0; blockIdx.x == 0 && i < slow; ++i) work = work * 3 + r;
    if (threadIdx.x == 0) b[blockIdx.x] = a[(blockIdx.x + 1) % gridDim.x] + (work == 123456u);
    grid.sync();
    volatile int* last = a;
    a = b;
    b = last;
    local[r & 3] += 1;
  }
  int counted = local[0] + local[1] + local[2] + local[3] - 6 - int(blockIdx.x);
  bool intact = kept[threadIdx.x] == int(blockIdx.x * 100 + threadIdx.x) && counted == rounds;
  if (__syncthreads_and(intact) && threadIdx.x == 0) y[blockIdx.x] = a[blockIdx.x];
}

// A chain: each block waits for the flag of the block after it, which a run in order would never see.
__global__ void chain_kernel(volatile int* flags) {
  if (threadIdx.x != 0) return;
  if (blockIdx.x + 1 < gridDim.x)
    while (flags[blockIdx.x + 1] == 0) {
    }
  flags[blockIdx.x] = flags[blockIdx.x + 1] + 1;
}

// Items come from a counter, so that one atomic after the other is all that a warp does between them.
__global__ void queue_kernel(unsigned* next, unsigned n, int* y) {
  for (unsigned i; (i = atomicAdd(next, 1u)) < n;) y[i] = 1;
  cg::this_grid().sync();
}

__global__ void valid_kernel(int* y) { y[blockIdx.x] = cg::this_grid().is_valid(); }

__global__ void absent_kernel(int* y) {
  if (blockIdx.x != 1) cg::this_grid().sync();
  y[blockIdx.x] = 1;
}
__global__ void endless_kernel(volatile int* y) {
  if (blockIdx.x == 1)
    for (;;) y[1] = 1;
  cg::this_grid().sync();
}
__global__ void outside_kernel(int* y, int n) {
  cg::this_grid().sync();
  y[blockIdx.x + n] = 1;
}
__global__ void halves_kernel(int* y) {
  if (threadIdx.x < 32) cg::this_grid().sync();
  else asm volatile("bar.sync 1, 64;");
  y[blockIdx.x] = 1;
}

__global__ void huge_kernel(int* y) {
  volatile int local[4096];  // 16 KiB of each of 1024 threads
  for (int i = threadIdx.x; i < 4096; i += 7) local[i] = i;
  y[0] = local[y[0] + threadIdx.x];
}

template <class... Parameters, class... Values>
static int together(void (*kernel)(Parameters...), int blocks, int threads, int shared, Values... values) {
  void* arguments[] = {&values...};
  int error = cudaLaunchCooperativeKernel((const void*)kernel, dim3(blocks), dim3(threads), arguments, shared, 0);
  int noted = cudaGetLastError();
  return error == noted ? error : -1;
}

extern "C" {
int reduce(const int* x, int n, int* partial, int* y, int blocks) {
  return together(reduce_kernel, blocks, 96, 0, x, n, partial, y);
}
int rotate(int* a, int* b, int rounds, int slow, int* y, int blocks) {
  return together(rotate_kernel, blocks, 64, 64 * 4, a, b, rounds, slow, y);
}
int chain(int* flags, int blocks) { return together(chain_kernel, blocks, 32, 0, flags); }
int queue(unsigned* next, int n, int* y, int blocks) { return together(queue_kernel, blocks, 64, 0, next, n, y); }
int valid(int* y, int blocks) { return together(valid_kernel, blocks, 32, 0, y); }
int valid_by_attribute(int* y, int blocks, int cooperative) {
  cudaLaunchConfig_t config = {};
  config.gridDim = blocks;
  config.blockDim = 32;
  cudaLaunchAttribute attribute;
  attribute.id = cudaLaunchAttributeCooperative;
  attribute.val.cooperative = cooperative;
  config.attrs = &attribute;
  config.numAttrs = 1;
  return cudaLaunchKernelEx(&config, valid_kernel, y);
}
int absent(int* y, int blocks) { return together(absent_kernel, blocks, 32, 0, y); }
int endless(int* y, int blocks) { return together(endless_kernel, blocks, 32, 0, y); }
int outside(int* y, int n, int blocks) { return together(outside_kernel, blocks, 32, 0, y, n); }
int halves(int* y, int blocks) { return together(halves_kernel, blocks, 64, 0, y); }
int huge(int* y, int blocks) { return together(huge_kernel, blocks, 1024, 0, y); }
int alone(int* y, int blocks) { absent_kernel<<<blocks, 32>>>(y); return cudaGetLastError(); }
// The most blocks that the occupancy calculator lets run together, and one more.
int largest(int* y, int more) {
  int each = 0, processors = 0;
  cudaOccupancyMaxActiveBlocksPerMultiprocessor(&each, valid_kernel, 1024, 0);
  cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, 0);
  return together(valid_kernel, each * processors + more, 1024, 0, y);
}
}
