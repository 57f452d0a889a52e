// One warp a row, in place: the element is read on the right of its own assignment.
#include <cuda_fp16.h>

constexpr int WARP_SIZE = 32;
constexpr int WARPS_PER_BLOCK = 4;

__device__ static float warp_reduce_sum(float x) {
#pragma unroll
  for (int mask = WARP_SIZE / 2; mask > 0; mask >>= 1) {
    x += __shfl_xor_sync(0xffffffff, x, mask, WARP_SIZE);
  }
  return x;
}

__global__ void normalise_rows_kernel(__half* x, int rows, int cols, float eps) {
  const int row = blockIdx.x * WARPS_PER_BLOCK + threadIdx.x / WARP_SIZE;
  const int lane = threadIdx.x % WARP_SIZE;
  if (row >= rows) return;
  __half* x_row = x + (size_t)row * cols;
  float total = 0.0f;
  for (int col = lane; col < cols; col += WARP_SIZE) {
    const float v = __half2float(x_row[col]);
    total = fmaf(v, v, total);
  }
  total = warp_reduce_sum(total);
  const float norm = sqrtf(total + eps);
  for (int col = lane; col < cols; col += WARP_SIZE) {
    x_row[col] = __float2half(__half2float(x_row[col]) / norm);
  }
}

extern "C" int normalise_rows(__half* x, int rows, int cols, float eps, cudaStream_t stream) {
  const dim3 grid((rows + WARPS_PER_BLOCK - 1) / WARPS_PER_BLOCK);
  normalise_rows_kernel<<<grid, WARPS_PER_BLOCK * WARP_SIZE, 0, stream>>>(x, rows, cols, eps);
  return cudaGetLastError();
}
