#include <ATen/cuda/CUDAContext.h>
#include <c10/cuda/CUDAGuard.h>

#include "core/block_sum.cuh"
#include "core/dispatch.h"

namespace engine {

constexpr int kThreads = 256;

template <typename scalar_t>
__global__ void rms_norm_kernel(scalar_t* __restrict__ out, const scalar_t* __restrict__ input,
                                const scalar_t* __restrict__ weight, const float epsilon, const int hidden_size) {
  const int64_t start = blockIdx.x * static_cast<int64_t>(hidden_size);
  float squares = 0.0f;
  for (int i = threadIdx.x; i < hidden_size; i += kThreads) {
    const float x = static_cast<float>(input[start + i]);
    squares += x * x;
  }
  const float scale = rsqrtf(block_sum<kThreads>(squares) / hidden_size + epsilon);
  for (int i = threadIdx.x; i < hidden_size; i += kThreads) {
    const float x = static_cast<float>(input[start + i]);
    out[start + i] = static_cast<scalar_t>(x * scale * static_cast<float>(weight[i]));
  }
}

}  // namespace engine

void rms_norm(torch::Tensor& out,           // [..., hidden_size]
              const torch::Tensor& input,   // [..., hidden_size]
              const torch::Tensor& weight,  // [hidden_size]
              double epsilon) {
  TORCH_CHECK(input.is_contiguous() && out.is_contiguous(), "tensors must be contiguous");
  const int hidden_size = input.size(-1);
  const int64_t num_tokens = input.numel() / hidden_size;
  const at::cuda::OptionalCUDAGuard device_guard(device_of(input));
  const cudaStream_t stream = at::cuda::getCurrentCUDAStream();
  ENGINE_DISPATCH(input.scalar_type(), "rms_norm_kernel", [&] {
    engine::rms_norm_kernel<scalar_t><<<num_tokens, engine::kThreads, 0, stream>>>(
        out.data_ptr<scalar_t>(), input.data_ptr<scalar_t>(), weight.data_ptr<scalar_t>(),
        static_cast<float>(epsilon), hidden_size);
  });
}

void twice(torch::Tensor& out, torch::Tensor const& input) {}
void twice(torch::Tensor& out, torch::Tensor const& input, double by) {}
