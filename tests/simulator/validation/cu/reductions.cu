// Reductions of a whole array and of rows, norms, softmax, argmax, the largest few.
#include "common.cuh"

// ---- a whole array of integers: exact in any order ----
__global__ void sum_tree(int* out, const int* x, int n) {
  extern __shared__ int parts[];
  int v = 0;
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) v += x[i];
  parts[threadIdx.x] = v;
  __syncthreads();
  for (int o = blockDim.x / 2; o > 0; o >>= 1) {
    if (threadIdx.x < o) parts[threadIdx.x] += parts[threadIdx.x + o];
    __syncthreads();
  }
  if (threadIdx.x == 0) atomicAdd(out, parts[0]);
}
__global__ void sum_shuffle(int* out, const int* x, int n) {
  int v = 0;
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) v += x[i];
  for (int o = 16; o > 0; o >>= 1) v += __shfl_down_sync(~0u, v, o);
  if (threadIdx.x % 32 == 0) atomicAdd(out, v);
}
__global__ void sum_atomics(int* out, const int* x, int n) {
  __shared__ int total;
  if (threadIdx.x == 0) total = 0;
  __syncthreads();
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) atomicAdd(&total, x[i]);
  __syncthreads();
  if (threadIdx.x == 0) atomicAdd(out, total);
}
extern "C" int sum_i32(int* out, const int* x, int n, int block, int way, cudaStream_t s) {
  int grid = min(blocks_for(n, block), 264);
  if (way == 0) sum_tree<<<grid, block, block * 4, s>>>(out, x, n);
  if (way == 1) sum_shuffle<<<grid, block, 0, s>>>(out, x, n);
  if (way == 2) sum_atomics<<<grid, block, 0, s>>>(out, x, n);
  return cudaGetLastError();
}

// ---- rows of floats ----
__global__ void rows_tree(float* out, const float* x, int width) {
  extern __shared__ float partial[];
  const float* row = x + (long long)blockIdx.x * width;
  float v = 0;
  for (int i = threadIdx.x; i < width; i += blockDim.x) v += row[i];
  partial[threadIdx.x] = v;
  __syncthreads();
  for (int o = blockDim.x / 2; o > 0; o >>= 1) {
    if (threadIdx.x < o) partial[threadIdx.x] += partial[threadIdx.x + o];
    __syncthreads();
  }
  if (threadIdx.x == 0) out[blockIdx.x] = partial[0];
}
__global__ void rows_shuffle(float* out, const float* x, int width) {
  const float* row = x + (long long)blockIdx.x * width;
  float v = 0;
  for (int i = threadIdx.x; i < width; i += blockDim.x) v += row[i];
  v = block_reduce<false>(v);
  if (threadIdx.x == 0) out[blockIdx.x] = v;
}
__global__ void rows_vector(float* out, const float* x, int width) {
  const float4* row = reinterpret_cast<const float4*>(x + (long long)blockIdx.x * width);
  float v = 0;
  for (int i = threadIdx.x; i < width / 4; i += blockDim.x) {
    float4 f = row[i];
    v += (f.x + f.y) + (f.z + f.w);
  }
  v = block_reduce<false>(v);
  if (threadIdx.x == 0) out[blockIdx.x] = v;
}
extern "C" int row_sum(float* out, const float* x, int rows, int width, int block, int way, cudaStream_t s) {
  if (way == 0) rows_tree<<<rows, block, block * 4, s>>>(out, x, width);
  if (way == 1) rows_shuffle<<<rows, block, 0, s>>>(out, x, width);
  if (way == 2) rows_vector<<<rows, block, 0, s>>>(out, x, width);
  return cudaGetLastError();
}

// ---- softmax ----
__global__ void softmax_passes(float* y, const float* x, int width) {
  const float* row = x + (long long)blockIdx.x * width;
  float* to = y + (long long)blockIdx.x * width;
  float most = -3.4e38f, sum = 0;
  for (int i = threadIdx.x; i < width; i += blockDim.x) most = fmaxf(most, row[i]);
  most = block_reduce<true>(most);
  for (int i = threadIdx.x; i < width; i += blockDim.x) sum += __expf(row[i] - most);
  sum = block_reduce<false>(sum);
  for (int i = threadIdx.x; i < width; i += blockDim.x) to[i] = __expf(row[i] - most) / sum;
}
__global__ void softmax_online(float* y, const float* x, int width) {
  const float* row = x + (long long)blockIdx.x * width;
  float* to = y + (long long)blockIdx.x * width;
  float most = -3.4e38f, sum = 0;
  for (int i = threadIdx.x; i < width; i += blockDim.x) {
    float v = row[i], next = fmaxf(most, v);
    sum = sum * __expf(most - next) + __expf(v - next);
    most = next;
  }
  float all = block_reduce<true>(most);
  sum = block_reduce<false>(sum * __expf(most - all));
  for (int i = threadIdx.x; i < width; i += blockDim.x) to[i] = __expf(row[i] - all) * __frcp_rn(sum);
}
extern "C" int softmax_f32(float* y, const float* x, int rows, int width, int block, int way, cudaStream_t s) {
  if (way == 0) softmax_passes<<<rows, block, 0, s>>>(y, x, width);
  if (way == 1) softmax_online<<<rows, block, 0, s>>>(y, x, width);
  return cudaGetLastError();
}

// ---- norms ----
template <int kWidth>
__global__ void layernorm_kernel(half* y, const half* x, const half* w, const half* b, int width) {
  struct alignas(2 * kWidth) Pack { half of[kWidth]; };
  const Pack* row = reinterpret_cast<const Pack*>(x + (long long)blockIdx.x * width);
  float sum = 0, squares = 0;
  for (int i = threadIdx.x; i < width / kWidth; i += blockDim.x) {
    Pack p = row[i];
#pragma unroll
    for (int k = 0; k < kWidth; ++k) {
      float v = __half2float(p.of[k]);
      sum += v;
      squares += v * v;
    }
  }
  float mean = block_reduce<false>(sum) / width;
  float scale = rsqrtf(block_reduce<false>(squares) / width - mean * mean + 1e-5f);
  Pack* to = reinterpret_cast<Pack*>(y + (long long)blockIdx.x * width);
  for (int i = threadIdx.x; i < width / kWidth; i += blockDim.x) {
    Pack p = row[i], g = reinterpret_cast<const Pack*>(w)[i], c = reinterpret_cast<const Pack*>(b)[i];
#pragma unroll
    for (int k = 0; k < kWidth; ++k)
      p.of[k] = __float2half((__half2float(p.of[k]) - mean) * scale * __half2float(g.of[k]) + __half2float(c.of[k]));
    to[i] = p;
  }
}
extern "C" int layernorm_f16(half* y, const half* x, const half* w, const half* b, int rows, int width, int block,
                             int way, cudaStream_t s) {
  if (way == 0) layernorm_kernel<1><<<rows, block, 0, s>>>(y, x, w, b, width);
  if (way == 1) layernorm_kernel<8><<<rows, block, 0, s>>>(y, x, w, b, width);
  return cudaGetLastError();
}
template <int kWidth, bool kKeep>
__global__ void rmsnorm_kernel(bf16* y, const bf16* x, const bf16* w, int width) {
  struct alignas(2 * kWidth) Pack { bf16 of[kWidth]; };
  extern __shared__ uint4 raw[];
  Pack* kept = reinterpret_cast<Pack*>(raw);
  const Pack* row = reinterpret_cast<const Pack*>(x + (long long)blockIdx.x * width);
  float squares = 0;
  for (int i = threadIdx.x; i < width / kWidth; i += blockDim.x) {
    Pack p = row[i];
    if (kKeep) kept[i] = p;
#pragma unroll
    for (int k = 0; k < kWidth; ++k) squares += __bfloat162float(p.of[k]) * __bfloat162float(p.of[k]);
  }
  float scale = rsqrtf(block_reduce<false>(squares) / width + 1e-6f);
  Pack* to = reinterpret_cast<Pack*>(y + (long long)blockIdx.x * width);
  for (int i = threadIdx.x; i < width / kWidth; i += blockDim.x) {
    Pack p = kKeep ? kept[i] : row[i], g = reinterpret_cast<const Pack*>(w)[i];
#pragma unroll
    for (int k = 0; k < kWidth; ++k)
      p.of[k] = __float2bfloat16(__bfloat162float(p.of[k]) * scale * __bfloat162float(g.of[k]));
    to[i] = p;
  }
}
extern "C" int rmsnorm_bf16(bf16* y, const bf16* x, const bf16* w, int rows, int width, int block, int way,
                            cudaStream_t s) {
  if (way == 0) rmsnorm_kernel<1, false><<<rows, block, 0, s>>>(y, x, w, width);
  if (way == 1) rmsnorm_kernel<8, false><<<rows, block, 0, s>>>(y, x, w, width);
  if (way == 2) rmsnorm_kernel<8, true><<<rows, block, width * 2, s>>>(y, x, w, width);
  return cudaGetLastError();
}

// ---- the largest of a row, one block (or one warp) a row; the first of equals wins ----
__device__ __forceinline__ unsigned long long ordered(float v, int i) {
  unsigned bits = __float_as_uint(v);
  bits = bits >> 31 ? ~bits : bits | 0x80000000u;
  return (unsigned long long)bits << 32 | (0xffffffffu - unsigned(i));
}
__device__ __forceinline__ unsigned long long larger(unsigned long long a, unsigned long long b) {
  return a > b ? a : b;
}
__global__ void argmax_block(int* out, const float* x, int width) {
  __shared__ unsigned long long parts[32];
  unsigned long long best = 0;
  for (int i = threadIdx.x; i < width; i += blockDim.x)
    best = larger(best, ordered(x[(long long)blockIdx.x * width + i], i));
  for (int o = 16; o > 0; o >>= 1) best = larger(best, __shfl_xor_sync(~0u, best, o));
  if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = best;
  __syncthreads();
  if (threadIdx.x == 0) {
    for (int k = 1; k < blockDim.x / 32; ++k) best = larger(best, parts[k]);
    out[blockIdx.x] = int(0xffffffffu - unsigned(best));
  }
}
__global__ void argmax_warp(int* out, const float* x, int rows, int width) {
  int row = (blockIdx.x * blockDim.x + threadIdx.x) / 32;
  if (row >= rows) return;
  unsigned long long best = 0;
  for (int i = threadIdx.x % 32; i < width; i += 32) best = larger(best, ordered(x[(long long)row * width + i], i));
  for (int o = 16; o > 0; o >>= 1) best = larger(best, __shfl_xor_sync(~0u, best, o));
  if (threadIdx.x % 32 == 0) out[row] = int(0xffffffffu - unsigned(best));
}
extern "C" int argmax_rows(int* out, const float* x, int rows, int width, int block, int way, cudaStream_t s) {
  if (way == 0) argmax_block<<<rows, block, 0, s>>>(out, x, width);
  if (way == 1) argmax_warp<<<blocks_for(rows * 32LL, block), block, 0, s>>>(out, x, rows, width);
  return cudaGetLastError();
}
// The four largest of a row, by a warp that keeps sorted fours.
__global__ void topk_kernel(int* out, const float* x, int rows, int width) {
  int row = (blockIdx.x * blockDim.x + threadIdx.x) / 32, lane = threadIdx.x % 32;
  if (row >= rows) return;
  unsigned long long best[4] = {0, 0, 0, 0};
  for (int i = lane; i < width; i += 32) {
    unsigned long long v = ordered(x[(long long)row * width + i], i);
#pragma unroll
    for (int k = 0; k < 4; ++k)
      if (v > best[k]) {
        unsigned long long t = best[k];
        best[k] = v;
        v = t;
      }
  }
  for (int k = 0; k < 4; ++k) {
    unsigned long long top = best[0];
    for (int o = 16; o > 0; o >>= 1) top = larger(top, __shfl_xor_sync(~0u, top, o));
    if (best[0] == top) {
      best[0] = best[1];
      best[1] = best[2];
      best[2] = best[3];
      best[3] = 0;
    }
    if (lane == 0) out[row * 4 + k] = int(0xffffffffu - unsigned(top));
  }
}
extern "C" int topk_rows(int* out, const float* x, int rows, int width, int block, int way, cudaStream_t s) {
  if (way == 0) topk_kernel<<<blocks_for(rows * 32LL, block), block, 0, s>>>(out, x, rows, width);
  return cudaGetLastError();
}
