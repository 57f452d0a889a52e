// Products of matrices and vectors without tensor cores; copies to shared memory in flight.
#include "common.cuh"

__global__ void matvec_warp(float* y, const float* a, const float* x, int rows, int width) {
  int row = (blockIdx.x * blockDim.x + threadIdx.x) / 32;
  if (row >= rows) return;
  float sum = 0;
  for (int i = threadIdx.x % 32; i < width; i += 32) sum += a[(long long)row * width + i] * x[i];
  sum = warp_sum(sum);
  if (threadIdx.x % 32 == 0) y[row] = sum;
}
__global__ void matvec_vector(float* y, const float* a, const float* x, int rows, int width) {
  int row = (blockIdx.x * blockDim.x + threadIdx.x) / 32;
  if (row >= rows) return;
  const float4 *p = reinterpret_cast<const float4*>(a + (long long)row * width),
               *q = reinterpret_cast<const float4*>(x);
  float sum = 0;
  for (int i = threadIdx.x % 32; i < width / 4; i += 32) {
    float4 u = p[i], v = q[i];
    sum += u.x * v.x + u.y * v.y + u.z * v.z + u.w * v.w;
  }
  sum = warp_sum(sum);
  if (threadIdx.x % 32 == 0) y[row] = sum;
}
__global__ void matvec_block(float* y, const float* a, const float* x, int width) {
  float sum = 0;
  for (int i = threadIdx.x; i < width; i += blockDim.x) sum += a[(long long)blockIdx.x * width + i] * x[i];
  sum = block_reduce<false>(sum);
  if (threadIdx.x == 0) y[blockIdx.x] = sum;
}
extern "C" int matvec_f32(float* y, const float* a, const float* x, int rows, int width, int block, int way,
                          cudaStream_t s) {
  if (way == 0) matvec_warp<<<blocks_for(rows * 32LL, block), block, 0, s>>>(y, a, x, rows, width);
  if (way == 1) matvec_vector<<<blocks_for(rows * 32LL, block), block, 0, s>>>(y, a, x, rows, width);
  if (way == 2) matvec_block<<<rows, block, 0, s>>>(y, a, x, width);
  return cudaGetLastError();
}

// Square matrices whose size is a multiple of 64; 256 threads.
__global__ void matmul_plain(float* c, const float* a, const float* b, int n) {
  int col = blockIdx.x * 16 + threadIdx.x % 16, row = blockIdx.y * 16 + threadIdx.x / 16;
  float sum = 0;
  for (int k = 0; k < n; ++k) sum += a[row * n + k] * b[k * n + col];
  c[row * n + col] = sum;
}
template <int kPad>
__global__ void matmul_tile(float* c, const float* a, const float* b, int n) {
  __shared__ float left[16][16 + kPad], right[16][16 + kPad];
  int tx = threadIdx.x % 16, ty = threadIdx.x / 16, col = blockIdx.x * 16 + tx, row = blockIdx.y * 16 + ty;
  float sum = 0;
  for (int k0 = 0; k0 < n; k0 += 16) {
    left[ty][tx] = a[row * n + k0 + tx];
    right[ty][tx] = b[(k0 + ty) * n + col];
    __syncthreads();
#pragma unroll
    for (int k = 0; k < 16; ++k) sum += left[ty][k] * right[k][tx];
    __syncthreads();
  }
  c[row * n + col] = sum;
}
__global__ void matmul_registers(float* c, const float* a, const float* b, int n) {
  __shared__ float left[16][64], right[16][64];
  int tx = threadIdx.x % 16, ty = threadIdx.x / 16, col0 = blockIdx.x * 64, row0 = blockIdx.y * 64;
  float sum[4][4] = {};
  for (int k0 = 0; k0 < n; k0 += 16) {
    for (int i = threadIdx.x; i < 1024; i += 256) {
      left[i % 16][i / 16] = a[(row0 + i / 16) * n + k0 + i % 16];
      right[i / 64][i % 64] = b[(k0 + i / 64) * n + col0 + i % 64];
    }
    __syncthreads();
#pragma unroll
    for (int k = 0; k < 16; ++k) {
      float4 u = *reinterpret_cast<float4*>(&left[k][ty * 4]), v = *reinterpret_cast<float4*>(&right[k][tx * 4]);
      float p[4] = {u.x, u.y, u.z, u.w}, q[4] = {v.x, v.y, v.z, v.w};
#pragma unroll
      for (int i = 0; i < 4; ++i)
#pragma unroll
        for (int j = 0; j < 4; ++j) sum[i][j] += p[i] * q[j];
    }
    __syncthreads();
  }
  for (int i = 0; i < 4; ++i)
    *reinterpret_cast<float4*>(&c[(row0 + ty * 4 + i) * n + col0 + tx * 4]) =
        make_float4(sum[i][0], sum[i][1], sum[i][2], sum[i][3]);
}
extern "C" int matmul_f32(float* c, const float* a, const float* b, int n, int block, int way, cudaStream_t s) {
  dim3 small(n / 16, n / 16), large(n / 64, n / 64);
  if (way == 0) matmul_plain<<<small, block, 0, s>>>(c, a, b, n);
  if (way == 1) matmul_tile<0><<<small, block, 0, s>>>(c, a, b, n);
  if (way == 2) matmul_tile<1><<<small, block, 0, s>>>(c, a, b, n);
  if (way == 3) matmul_registers<<<large, block, 0, s>>>(c, a, b, n);
  return cudaGetLastError();
}

// Sums of chunks that come through shared memory: loaded and waited for, or copied some chunks ahead.
template <int kStages>
__global__ void pipeline_kernel(float* y, const float* x, int chunks) {
  extern __shared__ float4 stages[];
  const float4* from = reinterpret_cast<const float4*>(x) + (long long)blockIdx.x * chunks * blockDim.x + threadIdx.x;
  float4 sum = make_float4(0, 0, 0, 0);
  for (int k = 0; k < kStages - 1; ++k) {
    if (k < chunks) __pipeline_memcpy_async(&stages[k * blockDim.x + threadIdx.x], from + k * blockDim.x, 16);
    __pipeline_commit();
  }
  for (int k = 0; k < chunks; ++k) {
    int ahead = k + kStages - 1;
    if (ahead < chunks)
      __pipeline_memcpy_async(&stages[ahead % kStages * blockDim.x + threadIdx.x], from + ahead * blockDim.x, 16);
    __pipeline_commit();
    __pipeline_wait_prior(kStages - 1);
    __syncthreads();
    float4 v = stages[k % kStages * blockDim.x + (threadIdx.x ^ 1)];
    sum.x += v.x, sum.y += v.y, sum.z += v.z, sum.w += v.w;
    __syncthreads();
  }
  reinterpret_cast<float4*>(y)[blockIdx.x * blockDim.x + threadIdx.x] = sum;
}
__global__ void pipeline_plain(float* y, const float* x, int chunks) {
  extern __shared__ float4 stages[];
  const float4* from = reinterpret_cast<const float4*>(x) + (long long)blockIdx.x * chunks * blockDim.x + threadIdx.x;
  float4 sum = make_float4(0, 0, 0, 0);
  for (int k = 0; k < chunks; ++k) {
    stages[threadIdx.x] = from[k * blockDim.x];
    __syncthreads();
    float4 v = stages[threadIdx.x ^ 1];
    sum.x += v.x, sum.y += v.y, sum.z += v.z, sum.w += v.w;
    __syncthreads();
  }
  reinterpret_cast<float4*>(y)[blockIdx.x * blockDim.x + threadIdx.x] = sum;
}
extern "C" int pipeline_f32(float* y, const float* x, int blocks, int chunks, int block, int way, cudaStream_t s) {
  if (way == 0) pipeline_plain<<<blocks, block, block * 16, s>>>(y, x, chunks);
  if (way == 1) pipeline_kernel<2><<<blocks, block, block * 32, s>>>(y, x, chunks);
  if (way == 2) pipeline_kernel<4><<<blocks, block, block * 64, s>>>(y, x, chunks);
  return cudaGetLastError();
}
