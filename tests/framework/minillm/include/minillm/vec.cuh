// SPDX-License-Identifier: Apache-2.0
// Copyright: the Astra authors.

// Elements in groups, as registers and as memory accesses of up to 16 bytes.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>

namespace minillm {

__device__ __forceinline__ float to_float(float x) { return x; }
__device__ __forceinline__ float to_float(__half x) { return __half2float(x); }
__device__ __forceinline__ float to_float(__nv_bfloat16 x) { return __bfloat162float(x); }

template <typename T>
__device__ __forceinline__ T from_float(float x);
template <>
__device__ __forceinline__ float from_float<float>(float x) {
  return x;
}
template <>
__device__ __forceinline__ __half from_float<__half>(float x) {
  return __float2half_rn(x);
}
template <>
__device__ __forceinline__ __nv_bfloat16 from_float<__nv_bfloat16>(float x) {
  return __float2bfloat16_rn(x);
}

template <typename T, int N>
struct alignas(sizeof(T) * N) Vec {
  T lane[N];

  __device__ __forceinline__ void load(const T* from) { *this = *reinterpret_cast<const Vec*>(from); }
  __device__ __forceinline__ void store(T* to) const { *reinterpret_cast<Vec*>(to) = *this; }
};

// As many elements as 16 bytes hold.
template <typename T>
constexpr int kVecLanes = 16 / sizeof(T);

}  // namespace minillm
