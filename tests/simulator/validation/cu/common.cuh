// What the corpus shares. Every launcher ends in (int block, int way, cudaStream_t stream).
#pragma once
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>
#include <cuda_pipeline.h>
#include <cuda_runtime.h>

#include <cstdint>

using bf16 = __nv_bfloat16;


inline int blocks_for(long long threads, int block) { return int((threads + block - 1) / block); }

__device__ __forceinline__ float warp_sum(float v) {
  for (int o = 16; o > 0; o >>= 1) v += __shfl_xor_sync(~0u, v, o);
  return v;
}
__device__ __forceinline__ float warp_max(float v) {
  for (int o = 16; o > 0; o >>= 1) v = fmaxf(v, __shfl_xor_sync(~0u, v, o));
  return v;
}
// Over a block of whole warps; every thread gets the result.
template <bool Max>
__device__ __forceinline__ float block_reduce(float v) {
  __shared__ float parts[32];
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  v = Max ? warp_max(v) : warp_sum(v);
  __syncthreads();
  if (lane == 0) parts[warp] = v;
  __syncthreads();
  v = lane < blockDim.x / 32 ? parts[lane] : (Max ? -3.4e38f : 0.0f);
  return Max ? warp_max(v) : warp_sum(v);
}
