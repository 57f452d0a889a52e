// out[row][i] = softmax(logits[row] / temperature[row])[i], one block a row.
#include <cuda_runtime.h>

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

extern "C" int temperature_softmax(const float* logits, const float* temperature, float* out,
                                   int rows, int vocab, cudaStream_t stream) {
  temperature_softmax_kernel<<<rows, kThreads, 0, stream>>>(logits, temperature, out, vocab);
  return cudaGetLastError();
}
