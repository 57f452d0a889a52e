// One scale per row; dynamic shared memory sized by the block.
#include <cuda_fp16.h>

#include <cstdint>

extern __shared__ float warp_maxima[];

__global__ void quantise_rows_kernel(const half* x, int8_t* q, float* scales, int d) {
  const half* row = x + blockIdx.x * static_cast<size_t>(d);
  int8_t* out = q + blockIdx.x * static_cast<size_t>(d);
  float peak = 0.f;
  for (int i = threadIdx.x; i < d; i += blockDim.x) peak = fmaxf(peak, fabsf(__half2float(row[i])));
  for (int o = 16; o; o >>= 1) peak = fmaxf(peak, __shfl_xor_sync(~0u, peak, o));
  if (!(threadIdx.x & 31)) warp_maxima[threadIdx.x >> 5] = peak;
  __syncthreads();
  peak = warp_maxima[0];
  for (int w = 1; w < blockDim.x / 32; ++w) peak = fmaxf(peak, warp_maxima[w]);
  const float scale = fmaxf(peak, 1e-8f) / 127.f;
  if (!threadIdx.x) scales[blockIdx.x] = scale;
  for (int i = threadIdx.x; i < d; i += blockDim.x) {
    const int v = __float2int_rn(__half2float(row[i]) / scale);
    out[i] = static_cast<int8_t>(max(-127, min(127, v)));
  }
}

extern "C" int quantise_rows(const half* x, int8_t* q, float* scales, int rows, int d,
                             cudaStream_t stream) {
  constexpr int threads = 128;
  quantise_rows_kernel<<<rows, threads, threads / 32 * sizeof(float), stream>>>(x, q, scales, d);
  return cudaGetLastError();
}
