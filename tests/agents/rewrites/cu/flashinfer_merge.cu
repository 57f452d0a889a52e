#include <flashinfer/attention/cascade.cuh>

extern "C" int flashinfer_merge_state(half* v_a, float* s_a, half* v_b, float* s_b, half* v_merged,
                                      float* s_merged, int seq_len, int num_heads, int head_dim,
                                      cudaStream_t stream) {
  return flashinfer::MergeState<half, half>(v_a, s_a, v_b, s_b, v_merged, s_merged, seq_len,
                                            num_heads, head_dim, stream);
}
