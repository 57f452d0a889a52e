// Elementwise kernels: types, vector widths, strides, misaligned starts.
#include "common.cuh"

__global__ void scale_scalar(float* y, const float* x, int n, float a, float b) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = a * x[i] + b;
}
__global__ void scale_vector(float* y, const float* x, int n, float a, float b) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n / 4) return;
  float4 v = reinterpret_cast<const float4*>(x)[i];
  reinterpret_cast<float4*>(y)[i] = make_float4(a * v.x + b, a * v.y + b, a * v.z + b, a * v.w + b);
}
__global__ void scale_unrolled(float* y, const float* x, int n, float a, float b) {
  int first = blockIdx.x * blockDim.x * 4 + threadIdx.x;
#pragma unroll
  for (int k = 0; k < 4; ++k) {
    int i = first + k * blockDim.x;
    if (i < n) y[i] = a * x[i] + b;
  }
}
// Each thread takes four neighbours one by one, so that a warp's request is spread over four times the sectors.
__global__ void scale_chunked(float* y, const float* x, int n, float a, float b) {
  int first = (blockIdx.x * blockDim.x + threadIdx.x) * 4;
  for (int i = first; i < min(first + 4, n); ++i) y[i] = a * x[i] + b;
}
extern "C" int scale_f32(float* y, const float* x, int n, float a, float b, int block, int way, cudaStream_t s) {
  int quarter = blocks_for((n + 3) / 4, block);
  if (way == 0) scale_scalar<<<blocks_for(n, block), block, 0, s>>>(y, x, n, a, b);
  if (way == 1) scale_vector<<<quarter, block, 0, s>>>(y, x, n, a, b);
  if (way == 2) scale_unrolled<<<quarter, block, 0, s>>>(y, x, n, a, b);
  if (way == 3) scale_chunked<<<quarter, block, 0, s>>>(y, x, n, a, b);
  return cudaGetLastError();
}

template <class V>
__global__ void add_halves(half* y, const half* a, const half* b, int n) {
  constexpr int kHalves = sizeof(V) / 2;
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n / kHalves) return;
  V u = reinterpret_cast<const V*>(a)[i], v = reinterpret_cast<const V*>(b)[i];
  half *p = reinterpret_cast<half*>(&u), *q = reinterpret_cast<half*>(&v);
#pragma unroll
  for (int k = 0; k < kHalves; ++k) p[k] = __hadd(p[k], q[k]);
  reinterpret_cast<V*>(y)[i] = u;
}
extern "C" int add_f16(half* y, const half* a, const half* b, int n, int block, int way, cudaStream_t s) {
  if (way == 0) add_halves<uint16_t><<<blocks_for(n, block), block, 0, s>>>(y, a, b, n);
  if (way == 1) add_halves<uint32_t><<<blocks_for(n / 2, block), block, 0, s>>>(y, a, b, n);
  if (way == 2) add_halves<uint4><<<blocks_for(n / 8, block), block, 0, s>>>(y, a, b, n);
  return cudaGetLastError();
}

template <int kWidth>
__global__ void silu_kernel(bf16* y, const bf16* x, int n) {
  struct alignas(2 * kWidth) Pack { bf16 of[kWidth]; };
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n / kWidth) return;
  Pack p = reinterpret_cast<const Pack*>(x)[i];
#pragma unroll
  for (int k = 0; k < kWidth; ++k) {
    float v = __bfloat162float(p.of[k]);
    p.of[k] = __float2bfloat16(v / (1.0f + __expf(-v)));
  }
  reinterpret_cast<Pack*>(y)[i] = p;
}
extern "C" int silu_bf16(bf16* y, const bf16* x, int n, int block, int way, cudaStream_t s) {
  if (way == 0) silu_kernel<1><<<blocks_for(n, block), block, 0, s>>>(y, x, n);
  if (way == 1) silu_kernel<4><<<blocks_for(n / 4, block), block, 0, s>>>(y, x, n);
  if (way == 2) silu_kernel<8><<<blocks_for(n / 8, block), block, 0, s>>>(y, x, n);
  return cudaGetLastError();
}

// Starts 0, 1, 8 or 17 elements after the alignment.
__global__ void offset_kernel(float* y, const float* x, int n, int offset) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = x[i + offset];
}
extern "C" int copy_offset(float* y, const float* x, int n, int block, int way, cudaStream_t s) {
  const int offsets[] = {0, 1, 8, 17};
  offset_kernel<<<blocks_for(n, block), block, 0, s>>>(y, x, n, offsets[way]);
  return cudaGetLastError();
}

__global__ void strided_kernel(float* y, const float* x, int n, int stride) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = x[(i * stride) & (n - 1)] + float(i & 3);
}
extern "C" int strided_read(float* y, const float* x, int n, int block, int way, cudaStream_t s) {
  const int strides[] = {1, 2, 8, 33};
  strided_kernel<<<blocks_for(n, block), block, 0, s>>>(y, x, n, strides[way]);
  return cudaGetLastError();
}

template <int kWidth>
__global__ void axpy_kernel(double* y, const double* x, int n, double a) {
  int i = (blockIdx.x * blockDim.x + threadIdx.x) * kWidth;
  if (i >= n) return;
  if constexpr (kWidth == 2) {
    double2 u = *reinterpret_cast<const double2*>(x + i), v = *reinterpret_cast<double2*>(y + i);
    *reinterpret_cast<double2*>(y + i) = make_double2(a * u.x + v.x, a * u.y + v.y);
  } else {
    y[i] = a * x[i] + y[i];
  }
}
extern "C" int axpy_f64(double* y, const double* x, int n, float a, int block, int way, cudaStream_t s) {
  if (way == 0) axpy_kernel<1><<<blocks_for(n, block), block, 0, s>>>(y, x, n, a);
  if (way == 1) axpy_kernel<2><<<blocks_for(n / 2, block), block, 0, s>>>(y, x, n, a);
  return cudaGetLastError();
}
