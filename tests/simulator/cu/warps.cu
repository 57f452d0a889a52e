// Divergence, exchange between lanes, barriers, atomics, calls and local memory.
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

namespace cg = cooperative_groups;

__constant__ float table[16] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16};
__device__ int counter = 5;

// Every lane leaves the loop at another time and must be back for the exchange after it.
__global__ void diverge_kernel(int* out) {
  int lane = threadIdx.x % 32, steps = 0;
  for (int i = 0; i < lane * lane % 17; ++i) steps += i & 1 ? 3 : 5;
  if (lane & 1) steps += 100;
  else if (lane & 2) steps -= 100;
  int total = steps;
  for (int o = 16; o > 0; o >>= 1) total += __shfl_xor_sync(0xffffffffu, total, o);
  out[threadIdx.x] = total * 1000 + steps;
}

__global__ void exchange_kernel(const int* in, unsigned* out) {
  int v = in[threadIdx.x], lane = threadIdx.x % 32;
  unsigned up = __shfl_up_sync(~0u, v, 3), down = __shfl_down_sync(~0u, v, 5, 16);
  unsigned index = __shfl_sync(~0u, v, lane * 7, 8), ballot = __ballot_sync(~0u, v & 1);
  unsigned same = __match_any_sync(~0u, v & 3), sum = __reduce_add_sync(~0u, (unsigned)v);
  int all = 0;
  unsigned whole = __match_all_sync(~0u, v >> 20, &all);
  unsigned* row = out + threadIdx.x * 10;
  row[0] = up;
  row[1] = down;
  row[2] = index;
  row[3] = ballot;
  row[4] = same;
  row[5] = sum;
  row[6] = whole + all;
  row[7] = __any_sync(~0u, v == 7);
  row[8] = __syncthreads_count(v > 5);
  row[9] = __reduce_max_sync(~0u, v) + __syncthreads_or(v == 7) * 1000 + __syncthreads_and(v >= 0) * 2000;
}

// Half of a warp exchanges among itself while the other half does something else.
__global__ void half_warp_kernel(int* out) {
  int lane = threadIdx.x % 32, value = lane;
  if (lane < 16) {
    for (int o = 8; o > 0; o >>= 1) value += __shfl_xor_sync(0x0000ffffu, value, o);
  } else {
    for (int i = 0; i < lane; ++i) value = value * 3 + 1;
    for (int o = 8; o > 0; o >>= 1) value += __shfl_xor_sync(0xffff0000u, value, o);
  }
  __syncwarp();
  out[threadIdx.x] = value;
}

// Producer and consumer warps meet at two named barriers.
__global__ void named_barrier_kernel(int* out) {
  __shared__ int slot[32];
  int lane = threadIdx.x % 32;
  if (threadIdx.x < 32) {
    for (int i = 0; i < 4; ++i) {
      slot[lane] = i * 100 + lane;
      asm volatile("bar.sync 1, 64;" ::: "memory");
      asm volatile("bar.sync 2, 64;" ::: "memory");
    }
  } else {
    int sum = 0;
    for (int i = 0; i < 4; ++i) {
      asm volatile("bar.sync 1, 64;" ::: "memory");
      sum += slot[31 - lane];
      asm volatile("bar.sync 2, 64;" ::: "memory");
    }
    out[lane] = sum;
  }
}

__device__ __noinline__ float helper(float* p, int i) {
  p[i & 7] += 1.0f;
  return p[(i + 3) & 7] * 2.0f;
}
struct Parameters {
  int n;
  float a[6];
};
__global__ void mixed_kernel(float* y, Parameters p) {
  float local[8];
  for (int i = 0; i < 8; ++i) local[i] = i * p.a[i % 6];
  float s = 0;
  for (int j = 0; j < p.n; ++j) s += helper(local, threadIdx.x + j);
  switch (threadIdx.x % 7) {
    case 0: s += 1; break;
    case 1: s *= 2; break;
    case 2: s -= 3; break;
    case 3: s = s * s; break;
    case 4: s = sqrtf(s); break;
    case 5: s = -s; break;
    default: s = 0;
  }
  int old = atomicAdd(&counter, 1);
  y[threadIdx.x] = s + table[threadIdx.x & 15] + (old < 0);
}

// A lock that a lane takes while its neighbours spin: needs progress of every lane.
__device__ int lock = 0;
__global__ void lock_kernel(int* c) {
  bool done = false;
  while (!done) {
    if (atomicCAS(&lock, 0, 1) == 0) {
      *(volatile int*)c += 1;
      __threadfence();
      atomicExch(&lock, 0);
      done = true;
    }
  }
}

__global__ void histogram_kernel(const int* x, unsigned* h, int n, int bins) {
  extern __shared__ unsigned local[];
  for (int i = threadIdx.x; i < bins; i += blockDim.x) local[i] = 0;
  __syncthreads();
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
    if (x[i] >= 0 && x[i] < bins) atomicAdd(&local[x[i]], 1u);
  __syncthreads();
  for (int i = threadIdx.x; i < bins; i += blockDim.x)
    if (local[i]) atomicAdd(&h[i], local[i]);
}

__global__ void atomics_kernel(half2* h, float* f, double* d, unsigned* u, int* i) {
  atomicAdd(h, __floats2half2_rn(1.0f, 2.0f));
  atomicAdd(f, 0.5f);
  atomicAdd(d, 0.25);
  atomicMax(u, threadIdx.x * 3);
  atomicMin(i, -(int)threadIdx.x);
  atomicXor(u + 1, 1u << (threadIdx.x % 32));
  atomicInc(u + 2, 9);
}

__global__ void tiles_kernel(const float* x, float* y) {
  auto tile = cg::tiled_partition<16>(cg::this_thread_block());
  int i = cg::this_thread_block().thread_rank();
  y[i] = cg::reduce(tile, x[i], cg::plus<float>());
}

extern "C" {
int diverge(int* out) { diverge_kernel<<<1, 64>>>(out); return cudaGetLastError(); }
int exchange(const int* in, unsigned* out) { exchange_kernel<<<1, 128>>>(in, out); return cudaGetLastError(); }
int half_warp(int* out) { half_warp_kernel<<<1, 32>>>(out); return cudaGetLastError(); }
int named_barrier(int* out) { named_barrier_kernel<<<1, 64>>>(out); return cudaGetLastError(); }
int mixed(float* y, int n) {
  Parameters p{n, {1, 2, 3, 4, 5, 6}};
  mixed_kernel<<<1, 32>>>(y, p);
  return cudaGetLastError();
}
int locked(int* c) { lock_kernel<<<2, 64>>>(c); return cudaGetLastError(); }
int histogram(const int* x, unsigned* h, int n, int bins) {
  cudaMemset(h, 0, bins * 4);
  histogram_kernel<<<8, 256, bins * 4>>>(x, h, n, bins);
  return cudaGetLastError();
}
int atomics(half2* h, float* f, double* d, unsigned* u, int* i) {
  atomics_kernel<<<2, 96>>>(h, f, d, u, i);
  return cudaGetLastError();
}
int tiles(const float* x, float* y) { tiles_kernel<<<1, 64>>>(x, y); return cudaGetLastError(); }
int read_counter(int* value) { return cudaMemcpyFromSymbol(value, counter, sizeof(int)); }
int write_counter(int value) { return cudaMemcpyToSymbol(counter, &value, sizeof(int)); }
}
