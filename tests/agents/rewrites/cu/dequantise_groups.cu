// A loop over groups and one within a group, whose scale and step are the same for all its elements.
#include <cuda_runtime.h>

#include <cstdint>

__global__ void dequantise_groups_kernel(float* __restrict__ out, const int8_t* __restrict__ in,
                                         const float* __restrict__ scales, int groups, int length,
                                         float levels) {
  const int8_t* row = in + blockIdx.x * groups * length;
  float* out_row = out + blockIdx.x * groups * length;
  for (int g = threadIdx.x; g < groups; g += blockDim.x) {
#pragma unroll 2
    for (int i = 0; i < length; ++i) {
      const float step = 1.0f / levels;
      out_row[g * length + i] = row[g * length + i] * (scales[blockIdx.x * groups + g] * step);
    }
  }
}

extern "C" int dequantise_groups(float* out, const int8_t* in, const float* scales, int rows,
                                 int groups, int length, cudaStream_t stream) {
  dequantise_groups_kernel<<<rows, 64, 0, stream>>>(out, in, scales, groups, length, 127.0f);
  return cudaGetLastError();
}
