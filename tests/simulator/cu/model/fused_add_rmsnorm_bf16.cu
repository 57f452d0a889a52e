// In place: s = x + residual in float32; residual = s rounded to bfloat16;
// x = s / sqrt(mean(s^2) + eps) * weight from the unrounded s, rounded once.

#include <cuda_bf16.h>
#include <cuda_runtime.h>

#include <algorithm>
#include <cstdint>

namespace {

constexpr int kVec = 8;  // bfloat16s in 16 bytes
constexpr int kWarp = 32;
constexpr int kMaxThreads = 1024;

struct alignas(16) Bf16Vec {
  __nv_bfloat16 lane[kVec];
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
__global__ void fused_add_rmsnorm_vector_kernel(__nv_bfloat16* __restrict__ x,
                                                __nv_bfloat16* __restrict__ residual,
                                                const __nv_bfloat16* __restrict__ weight, float eps,
                                                int hidden) {
  extern __shared__ FloatVec sum_row[];  // x + residual
  __shared__ float warp_sums[kWarp];

  const int64_t row = blockIdx.x;
  Bf16Vec* x_row = reinterpret_cast<Bf16Vec*>(x + row * hidden);
  Bf16Vec* residual_row = reinterpret_cast<Bf16Vec*>(residual + row * hidden);
  const Bf16Vec* weights = reinterpret_cast<const Bf16Vec*>(weight);

  float square_sum = 0.0f;
  for (int i = threadIdx.x; i < hidden / kVec; i += blockDim.x) {
    const Bf16Vec added = x_row[i];
    Bf16Vec stream = residual_row[i];
    FloatVec sum;
#pragma unroll
    for (int j = 0; j < kVec; ++j) {
      sum.lane[j] = __bfloat162float(added.lane[j]) + __bfloat162float(stream.lane[j]);
      square_sum += sum.lane[j] * sum.lane[j];
      stream.lane[j] = __float2bfloat16_rn(sum.lane[j]);
    }
    residual_row[i] = stream;
    sum_row[i] = sum;
  }

  const float scale = rsqrtf(block_sum(square_sum, warp_sums) / static_cast<float>(hidden) + eps);

  for (int i = threadIdx.x; i < hidden / kVec; i += blockDim.x) {
    const FloatVec sum = sum_row[i];
    const Bf16Vec factor = weights[i];
    Bf16Vec result;
#pragma unroll
    for (int j = 0; j < kVec; ++j) {
      result.lane[j] = __float2bfloat16_rn(sum.lane[j] * scale * __bfloat162float(factor.lane[j]));
    }
    x_row[i] = result;
  }
}

// The same for any `hidden` and any alignment, one element at a time.
__global__ void fused_add_rmsnorm_scalar_kernel(__nv_bfloat16* __restrict__ x,
                                                __nv_bfloat16* __restrict__ residual,
                                                const __nv_bfloat16* __restrict__ weight, float eps,
                                                int hidden) {
  extern __shared__ float sums[];  // x + residual
  __shared__ float warp_sums[kWarp];

  const int64_t row = blockIdx.x;
  __nv_bfloat16* x_row = x + row * hidden;
  __nv_bfloat16* residual_row = residual + row * hidden;

  float square_sum = 0.0f;
  for (int i = threadIdx.x; i < hidden; i += blockDim.x) {
    const float sum = __bfloat162float(x_row[i]) + __bfloat162float(residual_row[i]);
    square_sum += sum * sum;
    residual_row[i] = __float2bfloat16_rn(sum);
    sums[i] = sum;
  }

  const float scale = rsqrtf(block_sum(square_sum, warp_sums) / static_cast<float>(hidden) + eps);

  for (int i = threadIdx.x; i < hidden; i += blockDim.x) {
    x_row[i] = __float2bfloat16_rn(sums[i] * scale * __bfloat162float(weight[i]));
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
  __nv_bfloat16* x_data = static_cast<__nv_bfloat16*>(x);
  __nv_bfloat16* residual_data = static_cast<__nv_bfloat16*>(residual);
  const __nv_bfloat16* weight_data = static_cast<const __nv_bfloat16*>(weight);
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
