// Mean and variance in one pass, float4-free; the optional bias may be a null pointer.
#include <cuda_bf16.h>

#define LN_THREADS 128
#define LN_WARPS (LN_THREADS / 32)

struct Moments {
  float sum;
  float square;
};

template <typename T>
__global__ void layer_norm_kernel(T* __restrict__ out, float* __restrict__ inv_std,
                                  const T* __restrict__ in, const float* __restrict__ gamma,
                                  const float* __restrict__ beta, int cols, float eps) {
  __shared__ float s_sum[LN_WARPS];
  __shared__ float s_square[LN_WARPS];
  const T* x = in + static_cast<long long>(blockIdx.x) * cols;
  float sum = 0.f, square = 0.f;
  for (int c = threadIdx.x; c < cols; c += LN_THREADS) {
    const float v = static_cast<float>(x[c]);
    sum += v;
    square += v * v;
  }
  for (int mask = 1; mask < 32; mask *= 2) {
    sum += __shfl_xor_sync(~0u, sum, mask);
    square += __shfl_xor_sync(~0u, square, mask);
  }
  if (threadIdx.x % 32 == 0) {
    s_sum[threadIdx.x / 32] = sum;
    s_square[threadIdx.x / 32] = square;
  }
  __syncthreads();
  sum = square = 0.f;
  for (int w = 0; w < LN_WARPS; ++w) {
    sum += s_sum[w];
    square += s_square[w];
  }
  const float mean = sum / cols;
  const float scale = rsqrt(square / cols - mean * mean + eps);
  for (int c = threadIdx.x; c < cols; c += LN_THREADS) {
    float v = (static_cast<float>(x[c]) - mean) * scale * gamma[c];
    if (beta != nullptr) v += beta[c];
    out[static_cast<long long>(blockIdx.x) * cols + c] = static_cast<T>(v);
  }
  if (threadIdx.x == 0) inv_std[blockIdx.x] = scale;
}

extern "C" int layer_norm(__nv_bfloat16* out, float* inv_std, const __nv_bfloat16* in,
                          const float* gamma, const float* beta, int rows, int cols, float eps,
                          cudaStream_t stream) {
  dim3 grid = dim3(rows), block = dim3(LN_THREADS);
  layer_norm_kernel<__nv_bfloat16><<<grid, block, 0, stream>>>(out, inv_std, in, gamma, beta, cols,
                                                               eps);
  return cudaGetLastError();
}
