#include <ATen/cuda/CUDAContext.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <torch/extension.h>

#include <string>

template <typename scalar_t>
__global__ void sum_of_squares(const scalar_t* input, const scalar_t* residual, float* sums, int hidden) {
  __shared__ float partial[32];
  const int64_t start = static_cast<int64_t>(blockIdx.x) * hidden;
  float sum = 0.0f;
  for (int i = threadIdx.x; i < hidden; i += blockDim.x) {
    float value = static_cast<float>(input[start + i]);
    if (residual != nullptr) value += static_cast<float>(residual[start + i]);
    sum += value * value;
  }
  for (int offset = 16; offset > 0; offset /= 2) sum += __shfl_down_sync(0xffffffffu, sum, offset);
  if (threadIdx.x % 32 == 0) partial[threadIdx.x / 32] = sum;
  __syncthreads();
  if (threadIdx.x == 0) {
    for (int warp = 1; warp < blockDim.x / 32; ++warp) sum += partial[warp];
    sums[blockIdx.x] = sum;
  }
}

template <typename scalar_t>
__global__ void normalise(scalar_t* out, const scalar_t* input, const scalar_t* residual, const scalar_t* weight,
                          const float* sums, int hidden, float epsilon) {
  const int64_t start = static_cast<int64_t>(blockIdx.x) * hidden;
  const float scale = rsqrtf(sums[blockIdx.x] / hidden + epsilon);
  for (int i = threadIdx.x; i < hidden; i += blockDim.x) {
    float value = static_cast<float>(input[start + i]);
    if (residual != nullptr) value += static_cast<float>(residual[start + i]);
    out[start + i] = static_cast<scalar_t>(value * scale * static_cast<float>(weight[i]));
  }
}

void rms_norm(torch::Tensor& out, const torch::Tensor& input, const torch::Tensor& weight,
              const std::optional<torch::Tensor>& residual, double epsilon, const std::string& layout) {
  TORCH_CHECK(layout == "rows", "rms_norm knows no layout '", layout, "'");
  TORCH_CHECK(input.dim() == 2, "input must have two dimensions, not ", input.dim());
  TORCH_CHECK(input.dtype() == weight.dtype(), "input is ", input.dtype(), ", weight is ", weight.dtype());
  const c10::cuda::CUDAGuard guard(input.device());
  const auto stream = at::cuda::getCurrentCUDAStream(input.get_device()).stream();
  const int hidden = static_cast<int>(input.size(1));
  const auto rows = static_cast<unsigned int>(input.size(0));
  torch::Tensor sums = torch::empty({input.size(0)}, input.options().dtype(torch::kFloat32));
  AT_DISPATCH_FLOATING_TYPES_AND2(at::ScalarType::Half, at::ScalarType::BFloat16, input.scalar_type(), "rms_norm", [&] {
    const scalar_t* added = residual.has_value() ? residual->data_ptr<scalar_t>() : nullptr;
    sum_of_squares<scalar_t><<<rows, 128, 0, stream>>>(input.data_ptr<scalar_t>(), added, sums.data_ptr<float>(), hidden);
    C10_CUDA_KERNEL_LAUNCH_CHECK();
    normalise<scalar_t><<<rows, 256, 0, stream>>>(out.data_ptr<scalar_t>(), input.data_ptr<scalar_t>(), added,
                                                  weight.data_ptr<scalar_t>(), sums.data_ptr<float>(), hidden,
                                                  static_cast<float>(epsilon));
    C10_CUDA_KERNEL_LAUNCH_CHECK();
  });
}
