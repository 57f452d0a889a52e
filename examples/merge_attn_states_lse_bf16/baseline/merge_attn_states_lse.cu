// Merges two attention states with log-sum-exps in base 2:
// V = (2^Sa Va + 2^Sb Vb) / (2^Sa + 2^Sb), S = log2(2^Sa + 2^Sb), in float32; V is rounded once.

#include <cuda_bf16.h>
#include <cuda_runtime.h>

#include <algorithm>
#include <cmath>
#include <cstdint>

namespace {

constexpr int kVec = 8;  // bfloat16s in 16 bytes
constexpr int kMaxThreads = 1024;

struct alignas(16) Bf16Vec {
  __nv_bfloat16 lane[kVec];
};

struct MergedLse {
  float scale_a;
  float scale_b;
  float lse;
};

// Relative to the larger side, so that nothing overflows. An empty side has lse -inf and weight 0;
// two empty sides give scales 0 and lse -inf.
__device__ __forceinline__ MergedLse merge_lse(float lse_a, float lse_b) {
  const float top = fmaxf(lse_a, lse_b);
  const float shift = top == -INFINITY ? 0.0f : top;
  const float weight_a = exp2f(lse_a - shift);
  const float weight_b = exp2f(lse_b - shift);
  const float total = weight_a + weight_b;
  const float divisor = total > 0.0f ? total : 1.0f;
  return {weight_a / divisor, weight_b / divisor, log2f(total) + shift};
}

// One block per position: threadIdx.y walks the heads, threadIdx.x has one vector of the head.
// `head_dim` is kVec * blockDim.x.
__global__ void merge_vector_kernel(const __nv_bfloat16* __restrict__ v_a,
                                    const float* __restrict__ s_a,
                                    const __nv_bfloat16* __restrict__ v_b,
                                    const float* __restrict__ s_b,
                                    __nv_bfloat16* __restrict__ v_merged,
                                    float* __restrict__ s_merged, int num_heads) {
  const int64_t position = blockIdx.x;
  for (int head = threadIdx.y; head < num_heads; head += blockDim.y) {
    const int64_t state = position * num_heads + head;
    const int64_t index = state * blockDim.x + threadIdx.x;
    const Bf16Vec a = reinterpret_cast<const Bf16Vec*>(v_a)[index];
    const Bf16Vec b = reinterpret_cast<const Bf16Vec*>(v_b)[index];
    const MergedLse merged = merge_lse(s_a[state], s_b[state]);
    Bf16Vec result;
#pragma unroll
    for (int j = 0; j < kVec; ++j) {
      result.lane[j] = __float2bfloat16_rn(merged.scale_a * __bfloat162float(a.lane[j]) +
                                           merged.scale_b * __bfloat162float(b.lane[j]));
    }
    reinterpret_cast<Bf16Vec*>(v_merged)[index] = result;
    if (threadIdx.x == 0) {
      s_merged[state] = merged.lse;
    }
  }
}

// The same for any `head_dim` and any alignment, one element per thread.
__global__ void merge_scalar_kernel(const __nv_bfloat16* __restrict__ v_a,
                                    const float* __restrict__ s_a,
                                    const __nv_bfloat16* __restrict__ v_b,
                                    const float* __restrict__ s_b,
                                    __nv_bfloat16* __restrict__ v_merged,
                                    float* __restrict__ s_merged, int num_heads) {
  const int64_t position = blockIdx.x;
  for (int head = threadIdx.y; head < num_heads; head += blockDim.y) {
    const int64_t state = position * num_heads + head;
    const int64_t index = state * blockDim.x + threadIdx.x;
    const MergedLse merged = merge_lse(s_a[state], s_b[state]);
    v_merged[index] = __float2bfloat16_rn(merged.scale_a * __bfloat162float(v_a[index]) +
                                          merged.scale_b * __bfloat162float(v_b[index]));
    if (threadIdx.x == 0) {
      s_merged[state] = merged.lse;
    }
  }
}

bool is_aligned(const void* pointer) { return reinterpret_cast<uintptr_t>(pointer) % 16 == 0; }

}  // namespace

extern "C" int merge_attn_states_lse(const void* v_a, const void* s_a, const void* v_b,
                                     const void* s_b, void* v_merged, void* s_merged,
                                     int64_t seq_len, int64_t num_heads, int64_t head_dim,
                                     cudaStream_t stream) {
  const bool vectorised =
      head_dim % kVec == 0 && is_aligned(v_a) && is_aligned(v_b) && is_aligned(v_merged);
  const auto kernel = vectorised ? merge_vector_kernel : merge_scalar_kernel;
  const int heads = static_cast<int>(num_heads);
  const int per_head = static_cast<int>(vectorised ? head_dim / kVec : head_dim);
  if (per_head > kMaxThreads) {
    return cudaErrorInvalidValue;
  }
  const dim3 grid(static_cast<unsigned int>(seq_len));
  const dim3 block(per_head, std::min(heads, kMaxThreads / per_head));

  kernel<<<grid, block, 0, stream>>>(
      static_cast<const __nv_bfloat16*>(v_a), static_cast<const float*>(s_a),
      static_cast<const __nv_bfloat16*>(v_b), static_cast<const float*>(s_b),
      static_cast<__nv_bfloat16*>(v_merged), static_cast<float*>(s_merged), heads);
  return cudaGetLastError();
}
