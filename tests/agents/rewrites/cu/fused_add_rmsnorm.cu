// The residual and the input are both outputs; warp shuffles, then shared memory.
#include <cuda_fp16.h>

__device__ __forceinline__ float warp_sum(float v) {
#pragma unroll
  for (int offset = 16; offset > 0; offset >>= 1) v += __shfl_xor_sync(0xffffffffu, v, offset);
  return v;
}

__global__ void fused_add_rmsnorm_kernel(half* __restrict__ input, half* __restrict__ residual,
                                         const half* __restrict__ weight, float epsilon,
                                         int hidden_size) {
  __shared__ float partial[32];
  __shared__ float s_scale;
  const int tid = threadIdx.x;
  half* row = input + (size_t)blockIdx.x * hidden_size;
  half* res = residual + (size_t)blockIdx.x * hidden_size;
  float variance = 0.0f;
  for (int i = tid; i < hidden_size; i += blockDim.x) {
    float z = __half2float(row[i]);
    z += __half2float(res[i]);
    const half rounded = __float2half(z);
    res[i] = rounded;
    z = __half2float(rounded);
    variance += z * z;
  }
  variance = warp_sum(variance);
  if ((tid & 31) == 0) partial[tid >> 5] = variance;
  __syncthreads();
  if (tid < 32) {
    float total = tid < (blockDim.x + 31) / 32 ? partial[tid] : 0.0f;
    total = warp_sum(total);
    if (tid == 0) s_scale = 1.0f / sqrtf(total / hidden_size + epsilon);
  }
  __syncthreads();
  for (int i = tid; i < hidden_size; i += blockDim.x) {
    row[i] = __float2half(__half2float(res[i]) * s_scale * __half2float(weight[i]));
  }
}

extern "C" int fused_add_rmsnorm(half* input, half* residual, const half* weight, int rows,
                                 int hidden_size, float epsilon, cudaStream_t stream) {
  const int threads = 256;
  fused_add_rmsnorm_kernel<<<rows, threads, 0, stream>>>(input, residual, weight, epsilon,
                                                         hidden_size);
  return cudaGetLastError();
}
