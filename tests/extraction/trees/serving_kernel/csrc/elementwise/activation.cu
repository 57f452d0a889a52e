// SPDX-License-Identifier: Apache-2.0
// Copyright: the authors of this test.

#include <c10/cuda/CUDAGuard.h>

#include "launch_macros.h"
#include "serving_ops.h"
#include "unrelated.h"

namespace {

template <typename T>
__device__ __forceinline__ float silu(T x) {
  const float v = static_cast<float>(x);
  return v / (1.0f + expf(-v));
}

template <typename T>
__global__ void silu_and_mul_kernel(T* __restrict__ out, const T* __restrict__ in, int hidden) {
  const int64_t row = blockIdx.x;
  for (int i = threadIdx.x; i < hidden; i += blockDim.x) {
    const float gate = static_cast<float>(in[row * 2 * hidden + hidden + i]);
    out[row * hidden + i] = static_cast<T>(silu(in[row * 2 * hidden + i]) * gate);
  }
}

// Multiplies every row by a number of its own.
template <typename T>
__global__ void scale_rows_kernel(T* __restrict__ out, const T* __restrict__ in, const float* __restrict__ scale,
                                  int hidden) {
  const int64_t row = blockIdx.x;
  for (int i = threadIdx.x; i < hidden; i += blockDim.x) {
    out[row * hidden + i] = static_cast<T>(static_cast<float>(in[row * hidden + i]) * scale[row]);
  }
}

}  // namespace

void silu_and_mul(at::Tensor& out, const at::Tensor& input) {
  CHECK_OPERAND(out);
  CHECK_OPERAND(input);
  const int hidden = input.size(-1) / 2;
  const int tokens = input.size(0);
  const at::cuda::OptionalCUDAGuard guard(device_of(input));
  const cudaStream_t stream = at::cuda::getCurrentCUDAStream();
  FOR_EVERY_FLOAT(input.scalar_type(), "silu_and_mul", [&] {
    silu_and_mul_kernel<scalar_t><<<tokens, 256, 0, stream>>>(out.data_ptr<scalar_t>(), input.data_ptr<scalar_t>(),
                                                              hidden);
  });
}

void scale_rows(at::Tensor& out, const at::Tensor& input, const at::Tensor& scale) {
  CHECK_OPERAND(out);
  CHECK_OPERAND(input);
  CHECK_OPERAND(scale);
  TORCH_CHECK(input.dim() == 2 && out.dim() == 2 && scale.dim() == 1, "wrong ranks");
  TORCH_CHECK(out.sizes() == input.sizes(), "out and input differ");
  TORCH_CHECK(scale.size(0) == input.size(0), "a number for every row");
  const int tokens = input.size(0);
  const int hidden = input.size(1);
  const at::cuda::OptionalCUDAGuard guard(device_of(input));
  const cudaStream_t stream = at::cuda::getCurrentCUDAStream();
  FOR_EVERY_FLOAT(input.scalar_type(), "scale_rows", [&] {
    scale_rows_kernel<scalar_t><<<tokens, 128, 0, stream>>>(out.data_ptr<scalar_t>(), input.data_ptr<scalar_t>(),
                                                            scale.data_ptr<float>(), hidden);
  });
}
