// SPDX-License-Identifier: Apache-2.0
// Copyright: the Astra authors.

// Reductions over the threads of a block.
#pragma once

#include <cuda_runtime.h>

namespace minillm {

constexpr int kWarpSize = 32;

struct Sum {
  static constexpr float kIdentity = 0.0f;
  __device__ __forceinline__ float operator()(float a, float b) const { return a + b; }
};

struct Max {
  static constexpr float kIdentity = 0.0f;  // of magnitudes
  __device__ __forceinline__ float operator()(float a, float b) const { return fmaxf(a, b); }
};

template <typename Op>
__device__ __forceinline__ float warp_reduce(float value, Op op) {
#pragma unroll
  for (int offset = kWarpSize / 2; offset > 0; offset /= 2) {
    value = op(value, __shfl_xor_sync(0xffffffffu, value, offset));
  }
  return value;
}

// The same result in every thread. The block is a multiple of a warp.
template <typename Op>
__device__ float block_reduce(float value, Op op) {
  __shared__ float partial[kWarpSize];
  const int warp = threadIdx.x / kWarpSize;
  const int lane = threadIdx.x % kWarpSize;
  value = warp_reduce(value, op);
  if (lane == 0) partial[warp] = value;
  __syncthreads();
  const int warps = blockDim.x / kWarpSize;
  value = warp_reduce(lane < warps ? partial[lane] : Op::kIdentity, op);
  return value;
}

}  // namespace minillm
