// SPDX-License-Identifier: Apache-2.0
// Copyright: the Astra authors.

// Quantisation to 8-bit floats (e4m3): with a scale for every token that is found here, or with one given scale.

#include <cuda_fp8.h>

#include "minillm/reduce.cuh"
#include "minillm/utils.h"
#include "minillm/vec.cuh"
#include "minillm_ops.h"

namespace minillm {

constexpr float kFp8Max = 448.0f;
constexpr float kSmallestScale = 1.0f / (kFp8Max * 512.0f);

__device__ __forceinline__ __nv_fp8_e4m3 to_fp8(float x) {
  return __nv_fp8_e4m3(fminf(fmaxf(x, -kFp8Max), kFp8Max));
}

template <typename T, bool kBounded>
__global__ void per_token_quant_fp8_kernel(__nv_fp8_e4m3* __restrict__ output_q, float* __restrict__ output_s,
                                           const T* __restrict__ input, int hidden, float scale_ub) {
  const int64_t start = static_cast<int64_t>(blockIdx.x) * hidden;
  float largest = 0.0f;
  for (int i = threadIdx.x; i < hidden; i += blockDim.x) largest = fmaxf(largest, fabsf(to_float(input[start + i])));
  largest = block_reduce(largest, Max{});
  if constexpr (kBounded) largest = fminf(largest, scale_ub);
  const float scale = fmaxf(largest / kFp8Max, kSmallestScale);
  if (threadIdx.x == 0) output_s[blockIdx.x] = scale;
  for (int i = threadIdx.x; i < hidden; i += blockDim.x) {
    output_q[start + i] = to_fp8(to_float(input[start + i]) / scale);
  }
}

template <typename T>
__global__ void static_quant_fp8_kernel(__nv_fp8_e4m3* __restrict__ output_q, const T* __restrict__ input,
                                        const float* __restrict__ scale, int64_t elements) {
  const int64_t stride = static_cast<int64_t>(gridDim.x) * blockDim.x;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < elements; i += stride) {
    output_q[i] = to_fp8(to_float(input[i]) / scale[0]);
  }
}

}  // namespace minillm

void per_token_quant_fp8(at::Tensor& output_q, at::Tensor& output_s, const at::Tensor& input,
                         std::optional<double> scale_ub) {
  CHECK_INPUT(output_q);
  CHECK_INPUT(output_s);
  CHECK_INPUT(input);
  CHECK_DIM(2, input);
  CHECK_DIM(2, output_s);
  CHECK_SAME_SHAPE(output_q, input);
  CHECK_DTYPE(output_q, at::ScalarType::Float8_e4m3fn);
  CHECK_DTYPE(output_s, at::ScalarType::Float);
  CHECK_EQ(output_s.size(0), input.size(0));
  CHECK_EQ(output_s.size(1), 1);
  const int tokens = static_cast<int>(input.size(0));
  const int hidden = static_cast<int>(input.size(1));
  if (tokens == 0) return;
  const float bound = static_cast<float>(scale_ub.value_or(0.0));
  const c10::cuda::OptionalCUDAGuard guard(input.device());
  const cudaStream_t stream = at::cuda::getCurrentCUDAStream();
  DISPATCH_FLOAT_TYPES(input.scalar_type(), c_type, [&] {
    DISPATCH_BOOL(scale_ub.has_value(), kBounded, [&] {
      minillm::per_token_quant_fp8_kernel<c_type, kBounded><<<tokens, minillm::threads_for(hidden), 0, stream>>>(
          static_cast<__nv_fp8_e4m3*>(output_q.data_ptr()), static_cast<float*>(output_s.data_ptr()),
          static_cast<const c_type*>(input.data_ptr()), hidden, bound);
      C10_CUDA_KERNEL_LAUNCH_CHECK();
    });
  });
}

void static_quant_fp8(at::Tensor& output_q, const at::Tensor& input, const at::Tensor& scale) {
  CHECK_INPUT(output_q);
  CHECK_INPUT(input);
  CHECK_INPUT(scale);
  CHECK_DIM(2, input);
  CHECK_DIM(1, scale);
  CHECK_SAME_SHAPE(output_q, input);
  CHECK_DTYPE(output_q, at::ScalarType::Float8_e4m3fn);
  CHECK_DTYPE(scale, at::ScalarType::Float);
  CHECK_EQ(scale.size(0), 1);
  const int64_t elements = input.numel();
  if (elements == 0) return;
  constexpr int kThreads = 256;
  const int blocks = static_cast<int>(std::min<int64_t>((elements + kThreads - 1) / kThreads, 4096));
  const c10::cuda::OptionalCUDAGuard guard(input.device());
  const cudaStream_t stream = at::cuda::getCurrentCUDAStream();
  DISPATCH_FLOAT_TYPES(input.scalar_type(), c_type, [&] {
    minillm::static_quant_fp8_kernel<c_type><<<blocks, kThreads, 0, stream>>>(
        static_cast<__nv_fp8_e4m3*>(output_q.data_ptr()), static_cast<const c_type*>(input.data_ptr()),
        static_cast<const float*>(scale.data_ptr()), elements);
    C10_CUDA_KERNEL_LAUNCH_CHECK();
  });
}
