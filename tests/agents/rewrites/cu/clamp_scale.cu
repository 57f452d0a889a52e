// In place, with an early exit, a helper that stores, and a scale read through a pointer.
#include <cuda_bf16.h>

template <typename T>
__device__ __forceinline__ void store_flag(T* flags, unsigned where, T value) {
  flags[where] = value;
}

template <typename T>
__global__ void clamp_scale_kernel(T* __restrict__ x, const float* __restrict__ scale, int* flags,
                                   unsigned cols) {
  const unsigned row = blockIdx.x;
  const float s = scale[row];
  if (s == 0.0f) return;
  T* data = x + static_cast<size_t>(row) * cols;
#pragma unroll 4
  for (unsigned i = threadIdx.x; i < cols; i = i + blockDim.x) {
    data[i] = T(fminf(fmaxf(float(data[i]) / s, -2.0f), 2.0f));
  }
  if (threadIdx.x == 0) {
    store_flag(flags, row, 1);
  }
}

extern "C" int clamp_scale(__nv_bfloat16* x, const float* scale, int* flags, int rows, int cols,
                           cudaStream_t stream) {
  dim3 grid{static_cast<unsigned>(rows)};
  constexpr auto block = 96;
  clamp_scale_kernel<<<grid, block, 0, stream>>>(x, scale, flags, static_cast<unsigned>(cols));
  return cudaGetLastError();
}
