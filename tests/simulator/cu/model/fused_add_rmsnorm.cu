// In place: s = x + residual in float32; residual = s rounded to half;
// x = s / sqrt(mean(s^2) + eps) * weight from the unrounded s, rounded once.

#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <algorithm>
#include <cstdint>

namespace {

constexpr int kVec = 8;  // halves in 16 bytes
constexpr int kWarp = 32;
constexpr int kMaxThreads = 1024;

struct alignas(16) HalfVec {
  __half lane[kVec];
};

struct alignas(16) FloatVec {
  float lane[kVec];
};

__device__ __forceinline__ float warp_sum(float value) {
#pragma unroll
  for (int offset = kWarp / 2; offset > 0; offset /= 2) {
    value += __shfl_xor_sync(0xffffffffu, value, offset);
  }
  return value;
}

// The sum over the block, in every thread. `warp_sums` holds one float per warp.
__device__ __forceinline__ float block_sum(float value, float* warp_sums) {
  const int warp = threadIdx.x / kWarp;
  const int lane = threadIdx.x % kWarp;
  const int warps = blockDim.x / kWarp;

  value = warp_sum(value);
  if (lane == 0) {
    warp_sums[warp] = value;
  }
  __syncthreads();
  if (warp == 0) {
    value = warp_sum(lane < warps ? warp_sums[lane] : 0.0f);
    if (lane == 0) {
      warp_sums[0] = value;
    }
  }
  __syncthreads();
  return warp_sums[0];
}

// One block per row; every access is 16 bytes. `hidden` is a multiple of kVec.
__global__ void fused_add_rmsnorm_vector_kernel(__half* __restrict__ x,
                                                __half* __restrict__ residual,
                                                const __half* __restrict__ weight, float eps,
                                                int hidden) {
  extern __shared__ FloatVec sum_row[];  // x + residual
  __shared__ float warp_sums[kWarp];

  const int64_t row = blockIdx.x;
  HalfVec* x_row = reinterpret_cast<HalfVec*>(x + row * hidden);
  HalfVec* residual_row = reinterpret_cast<HalfVec*>(residual + row * hidden);
  const HalfVec* weights = reinterpret_cast<const HalfVec*>(weight);

  float square_sum = 0.0f;
  for (int i = threadIdx.x; i < hidden / kVec; i += blockDim.x) {
    const HalfVec added = x_row[i];
    HalfVec stream = residual_row[i];
    FloatVec sum;
#pragma unroll
    for (int j = 0; j < kVec; ++j) {
      sum.lane[j] = __half2float(added.lane[j]) + __half2float(stream.lane[j]);
      square_sum += sum.lane[j] * sum.lane[j];
      stream.lane[j] = __float2half_rn(sum.lane[j]);
    }
    residual_row[i] = stream;
    sum_row[i] = sum;
  }

  const float scale = rsqrtf(block_sum(square_sum, warp_sums) / static_cast<float>(hidden) + eps);

  for (int i = threadIdx.x; i < hidden / kVec; i += blockDim.x) {
    const FloatVec sum = sum_row[i];
    const HalfVec factor = weights[i];
    HalfVec result;
#pragma unroll
    for (int j = 0; j < kVec; ++j) {
      result.lane[j] = __float2half_rn(sum.lane[j] * scale * __half2float(factor.lane[j]));
    }
    x_row[i] = result;
  }
}

// The same for any `hidden` and any alignment, one element at a time.
__global__ void fused_add_rmsnorm_scalar_kernel(__half* __restrict__ x,
                                                __half* __restrict__ residual,
                                                const __half* __restrict__ weight, float eps,
                                                int hidden) {
  extern __shared__ float sums[];  // x + residual
  __shared__ float warp_sums[kWarp];

  const int64_t row = blockIdx.x;
  __half* x_row = x + row * hidden;
  __half* residual_row = residual + row * hidden;

  float square_sum = 0.0f;
  for (int i = threadIdx.x; i < hidden; i += blockDim.x) {
    const float sum = __half2float(x_row[i]) + __half2float(residual_row[i]);
    square_sum += sum * sum;
    residual_row[i] = __float2half_rn(sum);
    sums[i] = sum;
  }

  const float scale = rsqrtf(block_sum(square_sum, warp_sums) / static_cast<float>(hidden) + eps);

  for (int i = threadIdx.x; i < hidden; i += blockDim.x) {
    x_row[i] = __float2half_rn(sums[i] * scale * __half2float(weight[i]));
  }
}

bool is_aligned(const void* pointer) { return reinterpret_cast<uintptr_t>(pointer) % 16 == 0; }

// Rows above 48 KiB of float32 need the larger limit.
template <typename Kernel>
cudaError_t allow_shared(Kernel kernel, int bytes) {
  return cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);
}

}  // namespace

extern "C" int fused_add_rmsnorm(void* x, void* residual, const void* weight, float eps,
                                 int64_t tokens, int64_t hidden, cudaStream_t stream) {
  __half* x_data = static_cast<__half*>(x);
  __half* residual_data = static_cast<__half*>(residual);
  const __half* weight_data = static_cast<const __half*>(weight);
  const int columns = static_cast<int>(hidden);
  const int shared_bytes = columns * static_cast<int>(sizeof(float));
  const unsigned int blocks = static_cast<unsigned int>(tokens);
  const bool vectorised =
      hidden % kVec == 0 && is_aligned(x) && is_aligned(residual) && is_aligned(weight);
  const int work = vectorised ? columns / kVec : columns;
  const int warps = (work + kWarp - 1) / kWarp;
  const int threads = std::min(warps * kWarp, kMaxThreads);

  if (vectorised) {
    if (const cudaError_t status = allow_shared(fused_add_rmsnorm_vector_kernel, shared_bytes)) {
      return status;
    }
    fused_add_rmsnorm_vector_kernel<<<blocks, threads, shared_bytes, stream>>>(
        x_data, residual_data, weight_data, eps, columns);
  } else {
    if (const cudaError_t status = allow_shared(fused_add_rmsnorm_scalar_kernel, shared_bytes)) {
      return status;
    }
    fused_add_rmsnorm_scalar_kernel<<<blocks, threads, shared_bytes, stream>>>(
        x_data, residual_data, weight_data, eps, columns);
  }
  return cudaGetLastError();
}
