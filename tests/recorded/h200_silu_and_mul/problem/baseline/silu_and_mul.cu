// FlashInfer's silu_and_mul kernels, launched as FlashInfer 0.7.4 launches them (its template in
// flashinfer/jit/activation.py), without programmatic dependent launch. The kernels are unmodified.

#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <algorithm>
#include <cstdint>
#include <flashinfer/activation.cuh>

namespace {

using Element = __half;

__device__ __forceinline__ float silu(const float& value) {
  return value / (1.0f + __expf(-value));
}

// A few rows are split over several blocks, about two per SM, with two vectors in flight per
// thread; from two rows per SM on there is one block per row.
template <uint32_t vec_size>
cudaError_t launch(Element* out, const Element* input, uint32_t tokens, uint32_t hidden,
                   uint32_t num_sms, cudaStream_t stream) {
  const uint32_t num_vecs = hidden / vec_size;
  const uint32_t block_size = std::min(num_vecs, 256U);
  uint32_t split = 1;
  bool unroll = false;
  if (tokens < 2 * num_sms) {
    const uint32_t spread = 2 * num_sms / tokens;
    const uint32_t fit =
        std::min(flashinfer::ceil_div(num_vecs, 2 * block_size), 4 * num_sms / tokens);
    split = std::min(std::max(spread, fit), flashinfer::ceil_div(num_vecs, block_size));
    unroll = flashinfer::ceil_div(num_vecs, block_size * split) >= 2;
  }

  cudaLaunchConfig_t config = {};
  config.gridDim = tokens * split;
  config.blockDim = block_size;
  config.stream = stream;
  const int d = static_cast<int>(hidden);
  if (split == 1 && !unroll) {
    return cudaLaunchKernelEx(&config,
                              flashinfer::activation::act_and_mul_kernel<Element, silu, vec_size>,
                              out, input, d);
  }
  const auto kernel =
      unroll ? flashinfer::activation::act_and_mul_split_kernel<Element, silu, vec_size, 2>
             : flashinfer::activation::act_and_mul_split_kernel<Element, silu, vec_size, 1>;
  return cudaLaunchKernelEx(&config, kernel, out, input, d, split);
}

}  // namespace

extern "C" int flashinfer_silu_and_mul(void* out, const void* input, int64_t tokens, int64_t hidden,
                                       cudaStream_t stream) {
  int device = 0;
  int num_sms = 0;
  cudaError_t status = cudaGetDevice(&device);
  if (status == cudaSuccess) {
    status = cudaDeviceGetAttribute(&num_sms, cudaDevAttrMultiProcessorCount, device);
  }
  if (status != cudaSuccess) {
    return status;
  }

  // The widest vector that divides a row: the gate half starts `hidden` elements in.
  constexpr uint32_t max_vec_size = 16 / sizeof(Element);
  auto launch_widest = launch<1>;
  if (hidden % max_vec_size == 0) {
    launch_widest = launch<max_vec_size>;
  } else if (hidden % 4 == 0) {
    launch_widest = launch<4>;
  } else if (hidden % 2 == 0) {
    launch_widest = launch<2>;
  }
  status = launch_widest(static_cast<Element*>(out), static_cast<const Element*>(input),
                         static_cast<uint32_t>(tokens), static_cast<uint32_t>(hidden),
                         static_cast<uint32_t>(num_sms), stream);
  const cudaError_t last = cudaGetLastError();
  return status != cudaSuccess ? status : last;
}
