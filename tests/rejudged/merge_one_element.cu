// Right, and slower: one block per head, one element per thread, the weights computed by every thread.

#include <cuda_fp16.h>

#include <algorithm>
#include <cmath>
#include <cstdint>

namespace {

__global__ void merge(const __half* v_a, const float* s_a, const __half* v_b, const float* s_b,
                      __half* v_merged, float* s_merged, int heads, int dim) {
  const int64_t head = static_cast<int64_t>(blockIdx.x) * heads + blockIdx.y;
  const float top = fmaxf(s_a[head], s_b[head]);
  const float shift = top == -INFINITY ? 0.0f : top;
  const float weight_a = exp2f(s_a[head] - shift);
  const float weight_b = exp2f(s_b[head] - shift);
  const float total = weight_a + weight_b;
  for (int i = threadIdx.x; i < dim; i += blockDim.x) {
    const float a = total > 0.0f ? weight_a / total * __half2float(v_a[head * dim + i]) : 0.0f;
    const float b = total > 0.0f ? weight_b / total * __half2float(v_b[head * dim + i]) : 0.0f;
    v_merged[head * dim + i] = __float2half_rn(a + b);
  }
  if (threadIdx.x == 0) {
    s_merged[head] = log2f(total) + shift;
  }
}

}  // namespace

extern "C" int merge_attn_states_lse(const void* v_a, const void* s_a, const void* v_b,
                                     const void* s_b, void* v_merged, void* s_merged,
                                     int64_t seq_len, int64_t num_heads, int64_t head_dim,
                                     cudaStream_t stream) {
  const dim3 grid(static_cast<unsigned>(seq_len), static_cast<unsigned>(num_heads));
  const unsigned threads = static_cast<unsigned>(std::min<int64_t>(head_dim, 1024));
  merge<<<grid, threads, 0, stream>>>(
      static_cast<const __half*>(v_a), static_cast<const float*>(s_a),
      static_cast<const __half*>(v_b), static_cast<const float*>(s_b),
      static_cast<__half*>(v_merged), static_cast<float*>(s_merged), static_cast<int>(num_heads),
      static_cast<int>(head_dim));
  return cudaGetLastError();
}
