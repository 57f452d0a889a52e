// Kernels with one fault each when `wrong` is set, and without it otherwise. Tests look for the lines marked "here",
// and "other" for the earlier side.
#include <cooperative_groups.h>
#include <cuda_runtime.h>

namespace cg = cooperative_groups;

__global__ void reads_kernel(int* y, int wrong) {
  __shared__ int s[64];
  s[threadIdx.x] = threadIdx.x;  // other: reads
  if (!wrong) __syncthreads();
  y[threadIdx.x] = s[63 - threadIdx.x];  // here: reads
}
__global__ void overwrite_kernel(int* y, int wrong) {
  __shared__ int s[64];
  s[threadIdx.x] = threadIdx.x;
  __syncthreads();
  int v = s[63 - threadIdx.x];
  if (!wrong) __syncthreads();
  s[threadIdx.x] = v * 2;
  __syncthreads();
  y[threadIdx.x] = s[threadIdx.x ^ 1];
}
__global__ void both_write_kernel(int* y, int wrong) {
  __shared__ int s[32];
  s[threadIdx.x % 32] = wrong ? threadIdx.x : threadIdx.x % 32;  // here: both_write
  __syncthreads();
  y[threadIdx.x] = s[threadIdx.x % 32];
}
__global__ void at_once_kernel(int* y, int wrong) {
  __shared__ int s[32];
  s[threadIdx.x / 2] = wrong ? threadIdx.x : threadIdx.x / 2;  // here: at_once
  __syncthreads();
  y[threadIdx.x] = s[threadIdx.x / 2];
}
__global__ void within_warp_kernel(int* y, int wrong) {
  __shared__ int s[32];
  s[threadIdx.x] = threadIdx.x;  // other: within_warp
  if (!wrong) __syncwarp();
  y[threadIdx.x] = s[threadIdx.x ^ 1];  // here: within_warp
}
__global__ void old_volatile_kernel(int* y, int wrong) {
  __shared__ volatile int s[32];
  s[threadIdx.x] = threadIdx.x;  // other: old_volatile
  if (!wrong) __syncwarp();
  y[threadIdx.x] = s[threadIdx.x ^ 1];  // here: old_volatile
}
// The lower half of the warp meets, the upper half does not.
__global__ void half_meets_kernel(int* y, int wrong) {
  __shared__ int s[32];
  s[threadIdx.x] = threadIdx.x;  // other: half_meets
  if (threadIdx.x < 16) __syncwarp(0x0000ffffu);
  else if (!wrong) __syncwarp(0xffff0000u);
  y[threadIdx.x] = s[threadIdx.x ^ 1];  // here: half_meets
}
__global__ void shuffled_kernel(int* y, int wrong) {
  __shared__ int s[32];
  s[threadIdx.x] = threadIdx.x;  // other: shuffled
  int v = wrong ? 0 : __shfl_xor_sync(~0u, (int)threadIdx.x, 1);
  y[threadIdx.x] = s[threadIdx.x ^ 1] + v;  // here: shuffled
}
__global__ void count_kernel(int* y, int wrong) {
  __shared__ int s;
  if (threadIdx.x == 0) s = 0;  // other: count
  if (!wrong) __syncthreads();
  atomicAdd(&s, 1);  // here: count
  __syncthreads();
  y[threadIdx.x] = s;
}
__global__ void named_kernel(int* y, int wrong) {
  __shared__ int s[32];
  int lane = threadIdx.x % 32;
  if (threadIdx.x < 32) {
    for (int i = 0; i < 3; ++i) {
      s[lane] = i;  // here: named
      asm volatile("bar.sync 1, 64;" ::: "memory");
      if (!wrong) asm volatile("bar.sync 2, 64;" ::: "memory");
      else asm volatile("bar.arrive 2, 64;" ::: "memory");
    }
  } else {
    int sum = 0;
    for (int i = 0; i < 3; ++i) {
      asm volatile("bar.sync 1, 64;" ::: "memory");
      sum += s[31 - lane];  // other: named
      asm volatile("bar.sync 2, 64;" ::: "memory");
    }
    y[lane] = sum;
  }
}
// 0: right; 1: nobody waits for the copy; 2: no barrier after the wait; 3: the barrier comes before the wait;
// 4: a stage is filled again before all have read it.
__global__ void copy_kernel(const int* x, int* y, int wrong) {
  __shared__ int4 s[64];
  unsigned to = __cvta_generic_to_shared(s + threadIdx.x);
  asm volatile("cp.async.ca.shared.global [%0], [%1], 16;" ::"r"(to), "l"(x + 4 * threadIdx.x) : "memory");  // other: copy
  asm volatile("cp.async.commit_group;" ::: "memory");
  if (wrong == 3) __syncthreads();
  if (wrong != 1) asm volatile("cp.async.wait_group 0;" ::: "memory");
  if (wrong != 2 && wrong != 3) __syncthreads();
  int4 v = s[wrong == 1 ? threadIdx.x : 63 - threadIdx.x];  // here: copy
  if (wrong != 4) __syncthreads();
  asm volatile("cp.async.ca.shared.global [%0], [%1], 16;" ::"r"(to), "l"(x) : "memory");  // here: refill
  asm volatile("cp.async.wait_all;" ::: "memory");
  y[threadIdx.x] = v.x + v.y + v.z + v.w;
}
__global__ void same_place_kernel(int* y, int wrong) {
  if (threadIdx.x == 0) y[wrong ? 0 : blockIdx.x] = blockIdx.x;  // here: same_place
}
__global__ void neighbour_kernel(int* y, int wrong) {
  if (threadIdx.x) return;
  y[blockIdx.x] = 5;  // other: neighbour
  y[gridDim.x + blockIdx.x] = y[wrong ? (blockIdx.x ? blockIdx.x - 1 : 0) : blockIdx.x];  // here: neighbour
}
__global__ void in_block_kernel(int* y, int wrong) {
  y[threadIdx.x] = threadIdx.x;  // other: in_block
  if (!wrong) __syncthreads();
  y[64 + threadIdx.x] = y[63 - threadIdx.x];  // here: in_block
}
// The block that comes last adds up what the others left. Bytes and words of one granule belong to several.
__global__ void last_block_kernel(unsigned* ticket, short* part, int* y, int wrong) {
  __shared__ bool last;
  part[blockIdx.x * 64 + threadIdx.x] = threadIdx.x;  // other: last_block
  if (!wrong) __threadfence();
  __syncthreads();
  if (threadIdx.x == 0) last = atomicAdd(ticket, 1u) == gridDim.x - 1;
  __syncthreads();
  if (!last) return;
  int sum = 0;
  for (int b = 0; b < gridDim.x; ++b) sum += part[b * 64 + threadIdx.x];  // here: last_block
  y[threadIdx.x] = sum;
}
// Each block waits for the one before it, by an acquiring load of what that one releases.
__global__ void chain_kernel(int* flag, int* data, int* y, int wrong) {
  if (threadIdx.x) return;
  int before = 0, b = blockIdx.x;
  if (b > 0) {
    int seen = 0;
    while (!seen) asm volatile("ld.acquire.gpu.global.b32 %0, [%1];" : "=r"(seen) : "l"(flag + b - 1) : "memory");
    before = data[b - 1];  // here: chain
  }
  data[b] = before + b;  // other: chain
  if (wrong) asm volatile("st.relaxed.gpu.global.b32 [%0], 1;" ::"l"(flag + b) : "memory");
  else asm volatile("st.release.gpu.global.b32 [%0], 1;" ::"l"(flag + b) : "memory");
  y[b] = before;
}
__global__ void lock_kernel(int* y, int wrong) {
  if (threadIdx.x % 32) return;
  for (bool done = false; !done;) {
    if (atomicCAS(y + 1, 0, 1) == 0) {
      y[0] += 1;  // here: lock
      if (!wrong) __threadfence();
      atomicExch(y + 1, 0);
      done = true;
    }
  }
}
__global__ void grid_kernel(int* a, int* y, int wrong) {
  if (threadIdx.x == 0) a[blockIdx.x] = blockIdx.x;  // other: grid
  if (!wrong) cg::this_grid().sync();
  else __syncthreads();
  y[blockIdx.x * 64 + threadIdx.x] = a[gridDim.x - 1 - blockIdx.x];  // here: grid
}
__global__ void unwritten_shared_kernel(int* y, int wrong) {
  __shared__ int s[64];
  if (threadIdx.x < 64 - wrong) s[threadIdx.x] = 1;
  __syncthreads();
  y[threadIdx.x] = s[63 - threadIdx.x];  // here: unwritten_shared
}
__global__ void unwritten_global_kernel(const unsigned char* x, int* y) {
  y[threadIdx.x] = x[threadIdx.x];  // here: unwritten_global
}
__global__ void unwritten_local_kernel(int* y, int wrong) {
  volatile int mine[8];
  for (int i = wrong; i < 8; ++i) mine[i] = i;
  y[threadIdx.x] = mine[threadIdx.x & 7];  // here: unwritten_local
}
__global__ void exited_kernel(int* y, int wrong) {
  if (threadIdx.x >= 32 - wrong) return;
  y[threadIdx.x] = __shfl_xor_sync(~0u, (int)threadIdx.x, 1);  // here: exited
}
__global__ void divergent_kernel(int* y, int wrong) {
  __shared__ int s[64];
  s[threadIdx.x] = threadIdx.x;
  if (wrong && threadIdx.x % 32 < 16) asm volatile("bar.sync 0;" ::: "memory");  // other: divergent
  else asm volatile("{ .reg .pred p; setp.ne.u32 p, %0, 9999; bar.sync 0; }" ::"r"(wrong) : "memory");  // here: divergent
  y[threadIdx.x] = s[63 - threadIdx.x];
}

template <class... Parameters, class... Values>
static int together(void (*kernel)(Parameters...), int blocks, Values... values) {
  void* arguments[] = {&values...};
  return cudaLaunchCooperativeKernel((const void*)kernel, dim3(blocks), dim3(64), arguments, 0, 0);
}

// The second warp writes the rows that the first one loads as a matrix.
__global__ void matrix_rows_kernel(int* y, int wrong) {
  __shared__ __align__(16) int rows[32];
  if (threadIdx.x >= 32) rows[threadIdx.x - 32] = threadIdx.x;  // other: matrix_rows
  if (!wrong) __syncthreads();
  if (threadIdx.x >= 32) return;
  unsigned at = (unsigned)__cvta_generic_to_shared(rows + 4 * (threadIdx.x % 8)), word;
  asm volatile("ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%0}, [%1];" : "=r"(word) : "r"(at) : "memory");  // here: matrix_rows
  y[threadIdx.x] = word;
}
// Both warps store a matrix to the same rows.
__global__ void matrix_stores_kernel(int* y, int wrong) {
  __shared__ __align__(16) int rows[2][32];
  int* mine = rows[wrong ? 0 : threadIdx.x / 32];
  unsigned at = (unsigned)__cvta_generic_to_shared(mine + 4 * (threadIdx.x % 8));
  asm volatile("stmatrix.sync.aligned.m8n8.x1.shared.b16 [%0], {%1};" ::"r"(at), "r"(threadIdx.x) : "memory");  // here: matrix_stores
  __syncthreads();
  y[threadIdx.x] = rows[0][threadIdx.x % 32];
}
#define LAUNCHER(name, blocks, threads)          \
  int name(int* y, int wrong) {                  \
    cudaGetLastError();                          \
    name##_kernel<<<blocks, threads>>>(y, wrong); \
    return cudaGetLastError();                   \
  }

extern "C" {
LAUNCHER(reads, 2, 64)
LAUNCHER(overwrite, 2, 64)
LAUNCHER(both_write, 1, 64)
LAUNCHER(at_once, 1, 32)
LAUNCHER(within_warp, 1, 32)
LAUNCHER(old_volatile, 1, 32)
LAUNCHER(half_meets, 1, 32)
LAUNCHER(shuffled, 1, 32)
LAUNCHER(count, 1, 64)
LAUNCHER(named, 1, 64)
LAUNCHER(same_place, 4, 32)
LAUNCHER(neighbour, 4, 32)
LAUNCHER(in_block, 1, 64)
LAUNCHER(lock, 2, 64)
LAUNCHER(unwritten_shared, 1, 64)
LAUNCHER(unwritten_local, 1, 32)
LAUNCHER(exited, 1, 32)
LAUNCHER(divergent, 1, 64)
LAUNCHER(matrix_rows, 1, 64)
LAUNCHER(matrix_stores, 1, 64)
int copy(int* x, int* y, int wrong) {
  copy_kernel<<<1, 64>>>(x, y, wrong);
  return cudaGetLastError();
}
int last_block(unsigned* ticket, short* part, int* y, int wrong) {
  last_block_kernel<<<5, 64>>>(ticket, part, y, wrong);
  return cudaGetLastError();
}
int chain(int* flag, int* data, int* y, int wrong) { return together(chain_kernel, 5, flag, data, y, wrong); }
int grid(int* a, int* y, int wrong) { return together(grid_kernel, 5, a, y, wrong); }
// What is read of memory from cudaMalloc: 0 all set, 1 none, 2 half of it, 3 a copy of all, 4 a copy of half.
int unwritten_global(int* y, int how) {
  unsigned char *x, *copy;
  cudaMalloc(&x, 64);
  cudaMalloc(&copy, 64);
  if (how != 1) cudaMemset(x, 1, how == 2 || how == 4 ? 33 : 64);
  if (how >= 3) cudaMemcpy(copy, x, 64, cudaMemcpyDeviceToDevice);
  unwritten_global_kernel<<<1, 64>>>(how >= 3 ? copy : x, y);
  int error = cudaGetLastError();
  cudaFree(x);
  cudaFree(copy);
  return error;
}
}
