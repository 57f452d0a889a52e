// Kernels like those that Astra optimises, with the idioms of hand-written CUDA.
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>
#include <cuda_pipeline.h>
#include <cuda_runtime.h>

__device__ float warp_sum(float v) {
  for (int o = 16; o > 0; o >>= 1) v += __shfl_xor_sync(0xffffffffu, v, o);
  return v;
}
__device__ float warp_max(float v) {
  for (int o = 16; o > 0; o >>= 1) v = fmaxf(v, __shfl_xor_sync(0xffffffffu, v, o));
  return v;
}
__device__ float silu(float x) { return x / (1.0f + __expf(-x)); }

__global__ void silu_and_mul_kernel(half* out, const half* in, int d) {
  const half* x = in + (size_t)blockIdx.x * 2 * d;
  for (int i = threadIdx.x; i < d / 8; i += blockDim.x) {
    uint4 a = __ldg((const uint4*)x + i), b = __ldcs((const uint4*)(x + d) + i), r;
    const half2 *ha = (const half2*)&a, *hb = (const half2*)&b;
    half2* hr = (half2*)&r;
    for (int k = 0; k < 4; ++k) {
      float2 fa = __half22float2(ha[k]), fb = __half22float2(hb[k]);
      hr[k] = __floats2half2_rn(silu(fa.x) * fb.x, silu(fa.y) * fb.y);
    }
    ((uint4*)(out + (size_t)blockIdx.x * d))[i] = r;
  }
}

__global__ void rmsnorm_kernel(const float* x, const float* w, float* y, int d, float eps) {
  extern __shared__ float partial[];
  const float* row = x + (size_t)blockIdx.x * d;
  float sum = 0;
  for (int i = threadIdx.x; i < d; i += blockDim.x) sum += row[i] * row[i];
  sum = warp_sum(sum);
  int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  if (lane == 0) partial[warp] = sum;
  __syncthreads();
  if (warp == 0) {
    sum = warp_sum(lane < blockDim.x / 32 ? partial[lane] : 0.0f);
    if (lane == 0) partial[0] = sum;
  }
  __syncthreads();
  float scale = rsqrtf(partial[0] / d + eps);
  for (int i = threadIdx.x; i < d; i += blockDim.x) y[(size_t)blockIdx.x * d + i] = row[i] * scale * w[i];
}

__global__ void softmax_kernel(const __nv_bfloat16* x, __nv_bfloat16* y, int d) {
  __shared__ float partial[32];
  const __nv_bfloat16* row = x + (size_t)blockIdx.x * d;
  int lane = threadIdx.x % 32, warp = threadIdx.x / 32, warps = blockDim.x / 32;
  float top = -INFINITY;
  for (int i = threadIdx.x; i < d; i += blockDim.x) top = fmaxf(top, __bfloat162float(row[i]));
  top = warp_max(top);
  if (lane == 0) partial[warp] = top;
  __syncthreads();
  top = warp_max(lane < warps ? partial[lane] : -INFINITY);
  __syncthreads();
  float sum = 0;
  for (int i = threadIdx.x; i < d; i += blockDim.x) sum += expf(__bfloat162float(row[i]) - top);
  sum = warp_sum(sum);
  if (lane == 0) partial[warp] = sum;
  __syncthreads();
  sum = warp_sum(lane < warps ? partial[lane] : 0.0f);
  for (int i = threadIdx.x; i < d; i += blockDim.x)
    y[(size_t)blockIdx.x * d + i] = __float2bfloat16(expf(__bfloat162float(row[i]) - top) / sum);
}

__global__ void quantize_kernel(const __nv_bfloat16* x, __nv_fp8_e4m3* q, float scale, int n) {
  int i = (blockIdx.x * blockDim.x + threadIdx.x) * 2;
  if (i >= n) return;
  float2 f = __bfloat1622float2(*(const __nv_bfloat162*)(x + i));
  *(__nv_fp8x2_e4m3*)(q + i) = __nv_fp8x2_e4m3(make_float2(f.x * scale, f.y * scale));
}

__global__ void packed_kernel(const half2* a, const half2* b, half2* out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  half2 v = __hfma2(a[i], b[i], __hmul2(a[i], a[i]));
  v = __hmax2(v, __hneg2(b[i]));
  out[i] = __hadd2(v, h2exp2(__hmin2(a[i], __float2half2_rn(2.0f))));
}

__global__ void staged_sum_kernel(const float4* x, float* y, int n) {
  __shared__ float4 stage[2][128];
  const float4* row = x + (size_t)blockIdx.x * n;
  float sum = 0;
  __pipeline_memcpy_async(&stage[0][threadIdx.x], row + threadIdx.x, 16);
  __pipeline_commit();
  for (int i = 0; i < n / 128; ++i) {
    if (i + 1 < n / 128)
      __pipeline_memcpy_async(&stage[(i + 1) & 1][threadIdx.x], row + (i + 1) * 128 + threadIdx.x, 16);
    __pipeline_commit();
    __pipeline_wait_prior(1);
    __syncthreads();
    float4 v = stage[i & 1][threadIdx.x ^ 1];
    sum += v.x + v.y + v.z + v.w;
    __syncthreads();
  }
  atomicAdd(&y[blockIdx.x], sum);
}

__global__ void doubles_kernel(const double* x, double* y, int n) {
  int i = threadIdx.x;
  if (i < n) y[i] = exp(x[i]) / sqrt(x[i] * x[i] + 1.0) + log(x[i] + 3.0) * sin(x[i] * 1e7);
}

template <int Pad>
__global__ void transpose_kernel(const float* x, float* y, int rows, int columns) {
  __shared__ float tile[32][32 + Pad];
  int c = blockIdx.x * 32 + threadIdx.x, r = blockIdx.y * 32 + threadIdx.y;
  for (int j = 0; j < 32; j += 8)
    if (c < columns && r + j < rows) tile[threadIdx.y + j][threadIdx.x] = x[(size_t)(r + j) * columns + c];
  __syncthreads();
  int c2 = blockIdx.y * 32 + threadIdx.x, r2 = blockIdx.x * 32 + threadIdx.y;
  for (int j = 0; j < 32; j += 8)
    if (c2 < rows && r2 + j < columns) y[(size_t)(r2 + j) * rows + c2] = tile[threadIdx.x][threadIdx.y + j];
}

extern "C" {
int silu_and_mul(half* out, const half* in, int n, int d, int threads) {
  silu_and_mul_kernel<<<n, threads>>>(out, in, d);
  return cudaGetLastError();
}
int rmsnorm(const float* x, const float* w, float* y, int n, int d, float eps) {
  rmsnorm_kernel<<<n, 256, 8 * sizeof(float)>>>(x, w, y, d, eps);
  return cudaGetLastError();
}
int softmax(const __nv_bfloat16* x, __nv_bfloat16* y, int n, int d) {
  softmax_kernel<<<n, 256>>>(x, y, d);
  return cudaGetLastError();
}
int quantize(const __nv_bfloat16* x, __nv_fp8_e4m3* q, float scale, int n) {
  quantize_kernel<<<(n / 2 + 127) / 128, 128>>>(x, q, scale, n);
  return cudaGetLastError();
}
int packed(const half2* a, const half2* b, half2* out, int n) {
  packed_kernel<<<(n + 127) / 128, 128>>>(a, b, out, n);
  return cudaGetLastError();
}
int staged_sum(const float4* x, float* y, int rows, int n) {
  cudaMemsetAsync(y, 0, rows * sizeof(float));
  staged_sum_kernel<<<rows, 128>>>(x, y, n);
  return cudaGetLastError();
}
int doubles(const double* x, double* y, int n) {
  doubles_kernel<<<1, 64>>>(x, y, n);
  return cudaGetLastError();
}
int transpose(const float* x, float* y, int rows, int columns, int pad) {
  dim3 grid((columns + 31) / 32, (rows + 31) / 32), block(32, 8);
  if (pad) transpose_kernel<1><<<grid, block>>>(x, y, rows, columns);
  else transpose_kernel<0><<<grid, block>>>(x, y, rows, columns);
  return cudaGetLastError();
}
}
