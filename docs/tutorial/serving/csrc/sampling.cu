// SPDX-License-Identifier: Apache-2.0
// out[row][i] = softmax(logits[row] / temperature[row])[i], one block a row.
#include <ATen/ATen.h>
#include <ATen/cuda/CUDAContext.h>
#include <c10/cuda/CUDAException.h>
#include <torch/library.h>

#include <cmath>
#include <cstdint>

constexpr int kThreads = 256;

__global__ void temperature_softmax_kernel(const float* logits, const float* temperature,
                                           float* out, int vocab) {
  __shared__ float partial[kThreads];
  const float* in = logits + static_cast<int64_t>(blockIdx.x) * vocab;
  float* probs = out + static_cast<int64_t>(blockIdx.x) * vocab;

  float largest = -INFINITY;
  for (int i = threadIdx.x; i < vocab; i += blockDim.x) {
    largest = fmaxf(largest, in[i] / temperature[blockIdx.x]);
  }
  partial[threadIdx.x] = largest;
  __syncthreads();
  for (int stride = blockDim.x / 2; stride > 0; stride /= 2) {
    if (threadIdx.x < stride) {
      partial[threadIdx.x] = fmaxf(partial[threadIdx.x], partial[threadIdx.x + stride]);
    }
    __syncthreads();
  }
  largest = partial[0];
  __syncthreads();

  float sum = 0.0f;
  for (int i = threadIdx.x; i < vocab; i += blockDim.x) {
    sum += expf(in[i] / temperature[blockIdx.x] - largest);
  }
  partial[threadIdx.x] = sum;
  __syncthreads();
  for (int stride = blockDim.x / 2; stride > 0; stride /= 2) {
    if (threadIdx.x < stride) {
      partial[threadIdx.x] += partial[threadIdx.x + stride];
    }
    __syncthreads();
  }
  sum = partial[0];

  for (int i = threadIdx.x; i < vocab; i += blockDim.x) {
    probs[i] = expf(in[i] / temperature[blockIdx.x] - largest) / sum;
  }
}

void temperature_softmax(at::Tensor& out, const at::Tensor& logits, const at::Tensor& temperature) {
  TORCH_CHECK(logits.dim() == 2 && temperature.dim() == 1 && out.dim() == 2);
  TORCH_CHECK(out.size(0) == logits.size(0) && out.size(1) == logits.size(1));
  TORCH_CHECK(temperature.size(0) == logits.size(0));
  const int rows = static_cast<int>(logits.size(0));
  const int vocab = static_cast<int>(logits.size(1));
  const cudaStream_t stream = at::cuda::getCurrentCUDAStream();
  temperature_softmax_kernel<<<rows, kThreads, 0, stream>>>(
      logits.data_ptr<float>(), temperature.data_ptr<float>(), out.data_ptr<float>(), vocab);
  C10_CUDA_KERNEL_LAUNCH_CHECK();
}

TORCH_LIBRARY(serving, m) {
  m.def("temperature_softmax(Tensor(a!) out, Tensor logits, Tensor temperature) -> ()");
}

TORCH_LIBRARY_IMPL(serving, CUDA, m) { m.impl("temperature_softmax", &temperature_softmax); }
