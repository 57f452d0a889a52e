// SPDX-License-Identifier: Apache-2.0
// Copyright: the Astra authors.

// Gated activations: out = f(x) * gate, where each row of the input is [x | gate].

#include "minillm/utils.h"
#include "minillm/vec.cuh"
#include "minillm_ops.h"

namespace minillm {

__device__ __forceinline__ float silu(float x) { return x / (1.0f + expf(-x)); }

__device__ __forceinline__ float gelu_tanh(float x) {
  const float inner = 0.7978845608028654f * (x + 0.044715f * x * x * x);
  return 0.5f * x * (1.0f + tanhf(inner));
}

// One block a row, one element at a time.
template <typename T, float (*Activation)(float)>
__global__ void act_and_mul_kernel(T* __restrict__ out, const T* __restrict__ input, int hidden) {
  const int64_t row = blockIdx.x;
  const T* x_row = input + row * 2 * hidden;
  const T* gate_row = x_row + hidden;
  T* out_row = out + row * hidden;
  for (int i = threadIdx.x; i < hidden; i += blockDim.x) {
    const float x = to_float(x_row[i]);
    const float gate = to_float(gate_row[i]);
    out_row[i] = from_float<T>(Activation(x) * gate);
  }
}

}  // namespace minillm

#define LAUNCH_ACT_AND_MUL(ACTIVATION)                                                            \
  CHECK_INPUT(out);                                                                               \
  CHECK_INPUT(input);                                                                             \
  CHECK_DIM(2, input);                                                                            \
  CHECK_SAME_DTYPE(out, input);                                                                   \
  const int hidden = static_cast<int>(input.size(1) / 2);                                         \
  const int tokens = static_cast<int>(input.size(0));                                             \
  CHECK_EQ(out.size(0), tokens);                                                                  \
  CHECK_EQ(out.size(1), hidden);                                                                  \
  if (tokens == 0) return;                                                                        \
  const c10::cuda::OptionalCUDAGuard guard(input.device());                                       \
  const cudaStream_t stream = at::cuda::getCurrentCUDAStream();                                   \
  DISPATCH_FLOAT_TYPES(input.scalar_type(), c_type, [&] {                                         \
    minillm::act_and_mul_kernel<c_type, ACTIVATION><<<tokens, std::min(hidden, 1024), 0, stream>>>( \
        static_cast<c_type*>(out.data_ptr()), static_cast<const c_type*>(input.data_ptr()), hidden); \
    C10_CUDA_KERNEL_LAUNCH_CHECK();                                                               \
  })

void silu_and_mul(at::Tensor& out, const at::Tensor& input) { LAUNCH_ACT_AND_MUL(minillm::silu); }

void gelu_tanh_and_mul(at::Tensor& out, const at::Tensor& input) { LAUNCH_ACT_AND_MUL(minillm::gelu_tanh); }
