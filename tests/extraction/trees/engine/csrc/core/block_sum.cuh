#pragma once

namespace engine {

// The sum of one value of every thread of a block, in every thread.
template <int kThreads>
__device__ float block_sum(float value) {
  __shared__ float part[kThreads];
  part[threadIdx.x] = value;
  __syncthreads();
  for (int width = kThreads / 2; width > 0; width /= 2) {
    if (threadIdx.x < width) part[threadIdx.x] += part[threadIdx.x + width];
    __syncthreads();
  }
  return part[0];
}

}  // namespace engine
