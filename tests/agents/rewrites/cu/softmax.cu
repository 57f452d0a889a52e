// Rows of floats; the block's size is a template argument and sizes an array.
#include <cuda_runtime.h>

constexpr int kBlock = 512;

template <int BLOCK, bool kMax>
__device__ float block_reduce(float v, float* buffer) {
  const int lane = threadIdx.x % 32;
  const int warp = threadIdx.x / 32;
  for (int offset = 16; offset > 0; offset /= 2) {
    const float other = __shfl_xor_sync(0xffffffffu, v, offset);
    v = kMax ? fmaxf(v, other) : v + other;
  }
  __syncthreads();
  if (lane == 0) buffer[warp] = v;
  __syncthreads();
  v = buffer[0];
  for (int w = 1; w < BLOCK / 32; ++w) v = kMax ? fmaxf(v, buffer[w]) : v + buffer[w];
  return v;
}

template <int BLOCK>
__global__ void __launch_bounds__(BLOCK) softmax_kernel(const float* x, float* dst, const int ncols) {
  __shared__ float buffer[BLOCK / 32];
  const int row = blockIdx.x;
  x += row * ncols;
  dst += row * ncols;
  float peak = -INFINITY;
  for (int col = threadIdx.x; col < ncols; col += BLOCK) {
    peak = fmaxf(peak, x[col]);
  }
  peak = block_reduce<BLOCK, true>(peak, buffer);
  float sum = 0.0f;
  for (int col = threadIdx.x; col < ncols; col += BLOCK) {
    const float e = exp(x[col] - peak);
    sum += e;
    dst[col] = e;
  }
  sum = block_reduce<BLOCK, false>(sum, buffer);
  const float inv_sum = 1.0f / sum;
  for (int col = threadIdx.x; col < ncols; col += BLOCK) {
    dst[col] *= inv_sum;
  }
}

extern "C" int softmax(const float* x, float* dst, int rows, int ncols, cudaStream_t stream) {
  softmax_kernel<kBlock><<<rows, kBlock, 0, stream>>>(x, dst, ncols);
  return cudaGetLastError();
}
