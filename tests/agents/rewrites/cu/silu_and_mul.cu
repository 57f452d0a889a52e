// One block a row, an activation as a template argument, loads through a macro.
#include <cuda_fp16.h>

#include <algorithm>
#include <cstdint>

#define LOAD_READ_ONLY(arg) __ldg(arg)

namespace serving {

template <typename T>
__device__ __forceinline__ T silu(const T& x) {
  return (T)(((float)x) / (1.0f + expf((float)-x)));
}

template <typename scalar_t, scalar_t (*ACT_FN)(const scalar_t&)>
__global__ void act_and_mul_kernel(scalar_t* __restrict__ out,          // [..., d]
                                   const scalar_t* __restrict__ input,  // [..., 2, d]
                                   const int d) {
  const int64_t token_idx = blockIdx.x;
  for (int64_t idx = threadIdx.x; idx < d; idx += blockDim.x) {
    const scalar_t x = LOAD_READ_ONLY(&input[token_idx * 2 * d + idx]);
    const scalar_t y = LOAD_READ_ONLY(&input[token_idx * 2 * d + d + idx]);
    out[token_idx * d + idx] = ACT_FN(x) * y;
  }
}

}  // namespace serving

extern "C" int silu_and_mul(half* out, const half* input, int num_tokens, int d,
                            cudaStream_t stream) {
  dim3 grid(num_tokens);
  dim3 block(std::min(d, 1024));
  serving::act_and_mul_kernel<half, serving::silu<half>><<<grid, block, 0, stream>>>(out, input, d);
  return cudaGetLastError();
}
