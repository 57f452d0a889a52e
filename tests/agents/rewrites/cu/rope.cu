// Rotation of pairs that lie half a head apart; angles by sincosf.
#include <cuda_fp16.h>

__global__ void rope_kernel(half* x, const int* positions, int heads, int half_dim, float base) {
  const int position = positions[blockIdx.x];
  half* head = x + (blockIdx.x * heads + blockIdx.y) * 2 * half_dim;
  for (int i = threadIdx.x; i < half_dim; i += blockDim.x) {
    const float angle = position * powf(base, -(float)i / half_dim);
    const float c = cosf(angle), s = sinf(angle);
    const float a = __half2float(head[i]);
    const float b = __half2float(head[i + half_dim]);
    head[i] = __float2half(a * c - b * s);
    head[i + half_dim] = __float2half(a * s + b * c);
  }
}

extern "C" int rope(half* x, const int* positions, int tokens, int heads, int half_dim, float base,
                    cudaStream_t stream) {
  rope_kernel<<<dim3(tokens, heads), 64, 0, stream>>>(x, positions, heads, half_dim, base);
  return cudaGetLastError();
}
