// Merges two attention states with log-sum-exps in base 2:
// V = (2^Sa Va + 2^Sb Vb) / (2^Sa + 2^Sb), S = log2(2^Sa + 2^Sb), in float32; V is rounded once.

#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <algorithm>
#include <cmath>
#include <cstdint>

namespace {

constexpr int kVec = 8;  // halves in 16 bytes
constexpr int kWarp = 32;
constexpr int kMaxThreads = 1024;

struct alignas(16) HalfVec {
  __half lane[kVec];
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
  const float inverse = total > 0.0f ? 1.0f / total : 0.0f;
  return {weight_a * inverse, weight_b * inverse, log2f(total) + shift};
}

// One block per position; every access to V is 16 bytes. `head_dim` is a multiple of kVec.
__global__ void merge_vector_kernel(const __half* __restrict__ v_a, const float* __restrict__ s_a,
                                    const __half* __restrict__ v_b, const float* __restrict__ s_b,
                                    __half* __restrict__ v_merged, float* __restrict__ s_merged,
                                    int num_heads, int head_dim) {
  const int64_t position = blockIdx.x;
  const int64_t first_head = position * num_heads;
  const HalfVec* a_row = reinterpret_cast<const HalfVec*>(v_a + first_head * head_dim);
  const HalfVec* b_row = reinterpret_cast<const HalfVec*>(v_b + first_head * head_dim);
  HalfVec* merged_row = reinterpret_cast<HalfVec*>(v_merged + first_head * head_dim);
  const int per_head = head_dim / kVec;

  for (int i = threadIdx.x; i < num_heads * per_head; i += blockDim.x) {
    const HalfVec a = a_row[i];
    const HalfVec b = b_row[i];
    const int head = i / per_head;
    const MergedLse merged = merge_lse(s_a[first_head + head], s_b[first_head + head]);
    HalfVec result;
#pragma unroll
    for (int j = 0; j < kVec; ++j) {
      result.lane[j] = __float2half_rn(merged.scale_a * __half2float(a.lane[j]) +
                                       merged.scale_b * __half2float(b.lane[j]));
    }
    merged_row[i] = result;
  }
  for (int head = threadIdx.x; head < num_heads; head += blockDim.x) {
    s_merged[first_head + head] = merge_lse(s_a[first_head + head], s_b[first_head + head]).lse;
  }
}

// The same for any `head_dim` and any alignment, one element at a time.
__global__ void merge_scalar_kernel(const __half* __restrict__ v_a, const float* __restrict__ s_a,
                                    const __half* __restrict__ v_b, const float* __restrict__ s_b,
                                    __half* __restrict__ v_merged, float* __restrict__ s_merged,
                                    int num_heads, int head_dim) {
  const int64_t position = blockIdx.x;
  const int64_t first_head = position * num_heads;
  const __half* a_row = v_a + first_head * head_dim;
  const __half* b_row = v_b + first_head * head_dim;
  __half* merged_row = v_merged + first_head * head_dim;

  for (int i = threadIdx.x; i < num_heads * head_dim; i += blockDim.x) {
    const int head = i / head_dim;
    const MergedLse merged = merge_lse(s_a[first_head + head], s_b[first_head + head]);
    merged_row[i] = __float2half_rn(merged.scale_a * __half2float(a_row[i]) +
                                    merged.scale_b * __half2float(b_row[i]));
  }
  for (int head = threadIdx.x; head < num_heads; head += blockDim.x) {
    s_merged[first_head + head] = merge_lse(s_a[first_head + head], s_b[first_head + head]).lse;
  }
}

bool is_aligned(const void* pointer) { return reinterpret_cast<uintptr_t>(pointer) % 16 == 0; }

}  // namespace

extern "C" int merge_attn_states_lse(const void* v_a, const void* s_a, const void* v_b,
                                     const void* s_b, void* v_merged, void* s_merged,
                                     int64_t seq_len, int64_t num_heads, int64_t head_dim,
                                     cudaStream_t stream) {
  const __half* a = static_cast<const __half*>(v_a);
  const __half* b = static_cast<const __half*>(v_b);
  const float* lse_a = static_cast<const float*>(s_a);
  const float* lse_b = static_cast<const float*>(s_b);
  __half* merged = static_cast<__half*>(v_merged);
  float* lse_merged = static_cast<float*>(s_merged);
  const int heads = static_cast<int>(num_heads);
  const int dim = static_cast<int>(head_dim);
  const unsigned int blocks = static_cast<unsigned int>(seq_len);
  const bool vectorised =
      head_dim % kVec == 0 && is_aligned(v_a) && is_aligned(v_b) && is_aligned(v_merged);
  const int work = vectorised ? heads * dim / kVec : heads * dim;
  const int warps = (work + kWarp - 1) / kWarp;
  const int threads = std::min(warps * kWarp, kMaxThreads);

  if (vectorised) {
    merge_vector_kernel<<<blocks, threads, 0, stream>>>(a, lse_a, b, lse_b, merged, lse_merged,
                                                        heads, dim);
  } else {
    merge_scalar_kernel<<<blocks, threads, 0, stream>>>(a, lse_a, b, lse_b, merged, lse_merged,
                                                        heads, dim);
  }
  return cudaGetLastError();
}
