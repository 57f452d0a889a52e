#include <ATen/cuda/CUDAContext.h>
#include <c10/cuda/CUDAGuard.h>
#include <torch/all.h>
#include <torch/library.h>

#include "dispatch.h"

namespace serving {

template <typename T>
__device__ __forceinline__ T silu(const T& x) {
  return static_cast<T>(static_cast<float>(x) / (1.0f + expf(-static_cast<float>(x))));
}

// Each activation is rounded to T before the product, which a caller of the two operators apart would see too.
template <typename scalar_t, scalar_t (*activation)(const scalar_t&)>
__global__ void act_and_mul_kernel(scalar_t* __restrict__ out, const scalar_t* __restrict__ input, const int d) {
  const int64_t token = blockIdx.x;
  for (int64_t i = threadIdx.x; i < d; i += blockDim.x) {
    const scalar_t x = input[token * 2 * d + i];
    const scalar_t y = input[token * 2 * d + d + i];
    out[token * d + i] = activation(x) * y;
  }
}

}  // namespace serving

#define LAUNCH_ACTIVATION(KERNEL)                                                              \
  const int d = input.size(-1) / 2;                                                            \
  const int64_t tokens = input.numel() / input.size(-1);                                       \
  if (tokens == 0) return;                                                                     \
  const dim3 grid(tokens);                                                                     \
  const dim3 block(std::min(d, 256));                                                          \
  const at::cuda::OptionalCUDAGuard device_guard(device_of(input));                            \
  const cudaStream_t stream = at::cuda::getCurrentCUDAStream();                                \
  DISPATCH_SERVED_TYPES(input.scalar_type(), "act_and_mul", [&] {                              \
    serving::act_and_mul_kernel<scalar_t, KERNEL<scalar_t>><<<grid, block, 0, stream>>>(       \
        out.mutable_data_ptr<scalar_t>(), input.const_data_ptr<scalar_t>(), d);                \
    C10_CUDA_KERNEL_LAUNCH_CHECK();                                                            \
  });

void silu_and_mul(torch::Tensor& out, torch::Tensor& input) {
  TORCH_CHECK(input.is_cuda(), "input must be a CUDA tensor");
  TORCH_CHECK(input.is_contiguous() && out.is_contiguous(), "tensors must be contiguous");
  TORCH_CHECK(input.size(-1) == 2 * out.size(-1), "input has ", input.sizes(), ", out has ", out.sizes());
  LAUNCH_ACTIVATION(serving::silu);
}

TORCH_LIBRARY_FRAGMENT(serving, m) {
  m.def("silu_and_mul(Tensor! out, Tensor input) -> ()");
  m.impl("silu_and_mul", torch::kCUDA, &silu_and_mul);
}
