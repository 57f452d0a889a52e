// Two attention states merged by their log-sum-exp: a block per token and head.
#include <cuda_fp16.h>

#include <cmath>

template <typename scalar_t>
__global__ void merge_states_kernel(scalar_t* output, float* output_lse, const scalar_t* prefix,
                                    const float* prefix_lse, const scalar_t* suffix,
                                    const float* suffix_lse, const unsigned head_size) {
  const unsigned token_head = blockIdx.x;
  const float p_lse = prefix_lse[token_head];
  const float s_lse = suffix_lse[token_head];
  const float max_lse = fmaxf(p_lse, s_lse);
  const float p_se = expf(p_lse - max_lse);
  const float s_se = expf(s_lse - max_lse);
  const float out_se = p_se + s_se;
  const float p_scale = p_se / out_se;
  const float s_scale = s_se / out_se;
  const scalar_t* p_head = prefix + token_head * head_size;
  const scalar_t* s_head = suffix + token_head * head_size;
  for (unsigned i = threadIdx.x; i < head_size; i += blockDim.x) {
    const float p = static_cast<float>(p_head[i]);
    const float s = static_cast<float>(s_head[i]);
    output[token_head * head_size + i] = static_cast<scalar_t>(p * p_scale + s * s_scale);
  }
  if (threadIdx.x == 0) {
    output_lse[token_head] = logf(out_se) + max_lse;
  }
}

extern "C" int merge_states(half* output, float* output_lse, const half* prefix,
                            const float* prefix_lse, const half* suffix, const float* suffix_lse,
                            int token_heads, int head_size, cudaStream_t stream) {
  merge_states_kernel<half><<<token_heads, 128, 0, stream>>>(output, output_lse, prefix, prefix_lse,
                                                             suffix, suffix_lse, head_size);
  return cudaGetLastError();
}
