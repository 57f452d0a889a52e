// SPDX-License-Identifier: Apache-2.0
// Copyright: the Astra authors.

// Root mean square normalisation, alone and with the residual added first.

#include "minillm/reduce.cuh"
#include "minillm/utils.h"
#include "minillm/vec.cuh"
#include "minillm_ops.h"

namespace minillm {

// One block a row, 16 bytes at a time.
template <typename T>
__global__ void rmsnorm_kernel(T* __restrict__ out, const T* __restrict__ input, const T* __restrict__ weight,
                               int hidden, float eps) {
  constexpr int kLanes = kVecLanes<T>;
  const int64_t row = blockIdx.x;
  float squares = 0.0f;
  for (int i = threadIdx.x * kLanes; i < hidden; i += blockDim.x * kLanes) {
    Vec<T, kLanes> x;
    x.load(input + row * hidden + i);
#pragma unroll
    for (int j = 0; j < kLanes; ++j) squares += to_float(x.lane[j]) * to_float(x.lane[j]);
  }
  const float scale = rsqrtf(block_reduce(squares, Sum{}) / hidden + eps);
  for (int i = threadIdx.x * kLanes; i < hidden; i += blockDim.x * kLanes) {
    Vec<T, kLanes> x, w;
    x.load(input + row * hidden + i);
    w.load(weight + i);
#pragma unroll
    for (int j = 0; j < kLanes; ++j) x.lane[j] = from_float<T>(to_float(x.lane[j]) * scale * to_float(w.lane[j]));
    x.store(out + row * hidden + i);
  }
}

// residual += input, then input = norm of residual. The sum is read back from the residual as it was rounded, unless
// it is kept in shared memory.
template <typename T, bool kKept>
__global__ void fused_add_rmsnorm_kernel(T* __restrict__ input, T* __restrict__ residual,
                                         const T* __restrict__ weight, int hidden, float eps) {
  extern __shared__ float kept[];
  const int64_t start = static_cast<int64_t>(blockIdx.x) * hidden;
  float squares = 0.0f;
  for (int i = threadIdx.x; i < hidden; i += blockDim.x) {
    const float sum = to_float(input[start + i]) + to_float(residual[start + i]);
    squares += sum * sum;
    residual[start + i] = from_float<T>(sum);
    if constexpr (kKept) kept[i] = sum;
  }
  const float scale = rsqrtf(block_reduce(squares, Sum{}) / hidden + eps);
  for (int i = threadIdx.x; i < hidden; i += blockDim.x) {
    float sum;
    if constexpr (kKept) {
      sum = kept[i];
    } else {
      sum = to_float(residual[start + i]);
    }
    input[start + i] = from_float<T>(sum * scale * to_float(weight[i]));
  }
}

constexpr int kMostKept = 12288;  // floats that fit without asking for more shared memory

}  // namespace minillm

void rmsnorm(at::Tensor& out, const at::Tensor& input, const at::Tensor& weight, double eps) {
  CHECK_INPUT(out);
  CHECK_INPUT(input);
  CHECK_INPUT(weight);
  CHECK_DIM(2, input);
  CHECK_DIM(1, weight);
  CHECK_SAME_SHAPE(out, input);
  CHECK_SAME_DTYPE(out, input);
  CHECK_SAME_DTYPE(weight, input);
  CHECK_EQ(input.size(1), weight.size(0));
  const int tokens = static_cast<int>(input.size(0));
  const int hidden = static_cast<int>(input.size(1));
  if (tokens == 0) return;
  const c10::cuda::OptionalCUDAGuard guard(input.device());
  const cudaStream_t stream = at::cuda::getCurrentCUDAStream();
  DISPATCH_FLOAT_TYPES(input.scalar_type(), c_type, [&] {
    constexpr int kLanes = minillm::kVecLanes<c_type>;
    TORCH_CHECK(hidden % kLanes == 0, "hidden must be a multiple of ", kLanes);
    minillm::rmsnorm_kernel<c_type><<<tokens, minillm::threads_for(hidden / kLanes), 0, stream>>>(
        static_cast<c_type*>(out.data_ptr()), static_cast<const c_type*>(input.data_ptr()),
        static_cast<const c_type*>(weight.data_ptr()), hidden, static_cast<float>(eps));
    C10_CUDA_KERNEL_LAUNCH_CHECK();
  });
}

void fused_add_rmsnorm(at::Tensor& input, at::Tensor& residual, const at::Tensor& weight, double eps) {
  CHECK_INPUT(input);
  CHECK_INPUT(residual);
  CHECK_INPUT(weight);
  CHECK_DIM(2, input);
  CHECK_DIM(1, weight);
  CHECK_SAME_SHAPE(residual, input);
  CHECK_SAME_DTYPE(residual, input);
  CHECK_SAME_DTYPE(weight, input);
  CHECK_EQ(input.size(1), weight.size(0));
  const int tokens = static_cast<int>(input.size(0));
  const int hidden = static_cast<int>(input.size(1));
  if (tokens == 0) return;
  const c10::cuda::OptionalCUDAGuard guard(input.device());
  const cudaStream_t stream = at::cuda::getCurrentCUDAStream();
  DISPATCH_FLOAT_TYPES(input.scalar_type(), c_type, [&] {
    DISPATCH_BOOL(hidden <= minillm::kMostKept - minillm::kWarpSize, kKept, [&] {
      const size_t shared_bytes = kKept ? hidden * sizeof(float) : 0;
      minillm::fused_add_rmsnorm_kernel<c_type, kKept>
          <<<tokens, minillm::threads_for(hidden), shared_bytes, stream>>>(
              static_cast<c_type*>(input.data_ptr()), static_cast<c_type*>(residual.data_ptr()),
              static_cast<const c_type*>(weight.data_ptr()), hidden, static_cast<float>(eps));
      C10_CUDA_KERNEL_LAUNCH_CHECK();
    });
  });
}
