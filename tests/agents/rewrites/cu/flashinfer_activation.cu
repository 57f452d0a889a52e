#include <flashinfer/activation.cuh>

__device__ __forceinline__ float silu(const float& val) { return val / (1.0f + __expf(-val)); }

extern "C" int flashinfer_silu_and_mul(half* out, const half* input, int rows, int d,
                                       cudaStream_t stream) {
  constexpr uint32_t vec_size = 16 / sizeof(half);
  dim3 block(std::min<uint32_t>(d / vec_size, 256U));
  flashinfer::activation::act_and_mul_kernel<half, silu, vec_size>
      <<<rows, block, 0, stream>>>(out, input, d);
  return cudaGetLastError();
}
