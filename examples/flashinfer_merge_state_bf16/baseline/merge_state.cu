// FlashInfer's merge_state, kernel and launcher unmodified.

#include <cuda_bf16.h>
#include <cuda_runtime.h>

#include <cstdint>
#include <flashinfer/attention/cascade.cuh>

using Element = __nv_bfloat16;

extern "C" int flashinfer_merge_state(void* v_a, void* s_a, void* v_b, void* s_b, void* v_merged,
                                      void* s_merged, int64_t seq_len, int64_t num_heads,
                                      int64_t head_dim, cudaStream_t stream) {
  // FlashInfer throws for other sizes; an exception must not leave a C function.
  if (head_dim != 64 && head_dim != 128 && head_dim != 256 && head_dim != 512) {
    return cudaErrorInvalidValue;
  }
  const cudaError_t status = flashinfer::MergeState<Element, Element>(
      static_cast<Element*>(v_a), static_cast<float*>(s_a), static_cast<Element*>(v_b),
      static_cast<float*>(s_b), static_cast<Element*>(v_merged), static_cast<float*>(s_merged),
      static_cast<uint32_t>(seq_len), static_cast<uint32_t>(num_heads),
      static_cast<uint32_t>(head_dim), stream);
  const cudaError_t last = cudaGetLastError();
  return status != cudaSuccess ? status : last;
}
