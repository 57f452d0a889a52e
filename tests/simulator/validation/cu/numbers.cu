// Number formats and arithmetic: quantisation, packed halves, doubles, bits, approximations, divergence.
#include "common.cuh"

// ---- rows to int8 with a scale; a tensor to fp8; and back ----
template <int kWidth>
__global__ void int8_kernel(signed char* q, float* scales, const half* x, int width) {
  struct alignas(2 * kWidth) Pack { half of[kWidth]; };
  struct alignas(kWidth) Bytes { signed char of[kWidth]; };
  const Pack* row = reinterpret_cast<const Pack*>(x + (long long)blockIdx.x * width);
  float most = 0;
  for (int i = threadIdx.x; i < width / kWidth; i += blockDim.x) {
    Pack p = row[i];
#pragma unroll
    for (int k = 0; k < kWidth; ++k) most = fmaxf(most, fabsf(__half2float(p.of[k])));
  }
  most = block_reduce<true>(most);
  float scale = 127.0f / most;
  Bytes* to = reinterpret_cast<Bytes*>(q + (long long)blockIdx.x * width);
  for (int i = threadIdx.x; i < width / kWidth; i += blockDim.x) {
    Pack p = row[i];
    Bytes b;
#pragma unroll
    for (int k = 0; k < kWidth; ++k) b.of[k] = (signed char)__float2int_rn(__half2float(p.of[k]) * scale);
    to[i] = b;
  }
  if (threadIdx.x == 0) scales[blockIdx.x] = most / 127.0f;
}
extern "C" int quantise_int8(signed char* q, float* scales, const half* x, int rows, int width, int block, int way,
                             cudaStream_t s) {
  if (way == 0) int8_kernel<1><<<rows, block, 0, s>>>(q, scales, x, width);
  if (way == 1) int8_kernel<8><<<rows, block, 0, s>>>(q, scales, x, width);
  return cudaGetLastError();
}
template <int kWidth>
__global__ void fp8_kernel(__nv_fp8_e4m3* q, const bf16* x, float scale, int n) {
  struct alignas(2 * kWidth) Pack { bf16 of[kWidth]; };
  struct alignas(kWidth) Bytes { __nv_fp8_storage_t of[kWidth]; };
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n / kWidth) return;
  Pack p = reinterpret_cast<const Pack*>(x)[i];
  Bytes b;
#pragma unroll
  for (int k = 0; k < kWidth; ++k)
    b.of[k] = __nv_cvt_float_to_fp8(__bfloat162float(p.of[k]) * scale, __NV_SATFINITE, __NV_E4M3);
  reinterpret_cast<Bytes*>(q)[i] = b;
}
extern "C" int quantise_fp8(__nv_fp8_e4m3* q, const bf16* x, int n, float scale, int block, int way, cudaStream_t s) {
  if (way == 0) fp8_kernel<1><<<blocks_for(n, block), block, 0, s>>>(q, x, scale, n);
  if (way == 1) fp8_kernel<4><<<blocks_for(n / 4, block), block, 0, s>>>(q, x, scale, n);
  return cudaGetLastError();
}
template <int kWidth>
__global__ void dequantise_kernel(half* y, const signed char* q, const float* scales, int width) {
  struct alignas(2 * kWidth) Pack { half of[kWidth]; };
  struct alignas(kWidth) Bytes { signed char of[kWidth]; };
  float scale = scales[blockIdx.x];
  for (int i = threadIdx.x; i < width / kWidth; i += blockDim.x) {
    Bytes b = reinterpret_cast<const Bytes*>(q + (long long)blockIdx.x * width)[i];
    Pack p;
#pragma unroll
    for (int k = 0; k < kWidth; ++k) p.of[k] = __float2half(float(b.of[k]) * scale);
    reinterpret_cast<Pack*>(y + (long long)blockIdx.x * width)[i] = p;
  }
}
extern "C" int dequantise_int8(half* y, const signed char* q, const float* scales, int rows, int width, int block,
                               int way, cudaStream_t s) {
  if (way == 0) dequantise_kernel<1><<<rows, block, 0, s>>>(y, q, scales, width);
  if (way == 1) dequantise_kernel<8><<<rows, block, 0, s>>>(y, q, scales, width);
  return cudaGetLastError();
}
// Two int4 a byte, by shifts and masks.
__global__ void int4_kernel(half* y, const unsigned* q, float scale, int words) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= words) return;
  unsigned packed = q[i];
  struct alignas(16) Eight { half of[8]; } out;
#pragma unroll
  for (int k = 0; k < 8; ++k) out.of[k] = __float2half(scale * float(int(packed << (28 - 4 * k)) >> 28));
  reinterpret_cast<Eight*>(y)[i] = out;
}
extern "C" int dequantise_int4(half* y, const unsigned* q, int words, float scale, int block, int way,
                               cudaStream_t s) {
  if (way == 0) int4_kernel<<<blocks_for(words, block), block, 0, s>>>(y, q, scale, words);
  return cudaGetLastError();
}

// ---- packed pairs: a polynomial by fused steps, minima, a comparison ----
template <class T2>
__device__ __forceinline__ T2 packed_steps(T2 v, T2 w, int steps) {
  T2 sum = v;
  for (int k = 0; k < steps; ++k) sum = __hfma2(sum, w, v);
  return __hmin2(__hmax2(sum, __hneg2(w)), __hmul2(v, w));
}
__global__ void packed_f16_kernel(half2* y, const half2* a, const half2* b, int n, int steps) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = packed_steps(a[i], b[i], steps);
}
__global__ void packed_bf16_kernel(__nv_bfloat162* y, const __nv_bfloat162* a, const __nv_bfloat162* b, int n, int steps) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = packed_steps(a[i], b[i], steps);
}
extern "C" int packed_f16(half2* y, const half2* a, const half2* b, int n, int block, int way, cudaStream_t s) {
  packed_f16_kernel<<<blocks_for(n, block), block, 0, s>>>(y, a, b, n, way ? 32 : 4);
  return cudaGetLastError();
}
extern "C" int packed_bf16(__nv_bfloat162* y, const __nv_bfloat162* a, const __nv_bfloat162* b, int n, int block, int way,
                           cudaStream_t s) {
  packed_bf16_kernel<<<blocks_for(n, block), block, 0, s>>>(y, a, b, n, way ? 32 : 4);
  return cudaGetLastError();
}

// ---- doubles: a polynomial (0), a quotient and a root (1) ----
template <bool kRoots>
__global__ void doubles_kernel(double* y, const double* x, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  double v = x[i], sum = 1.0;
  for (int k = 12; k > 0; --k) sum = sum * v * 0.25 + 1.0;
  y[i] = kRoots ? sqrt(v * v + 1.0) / (2.0 + v * v) : sum;
}
extern "C" int doubles(double* y, const double* x, int n, int block, int way, cudaStream_t s) {
  if (way == 0) doubles_kernel<false><<<blocks_for(n, block), block, 0, s>>>(y, x, n);
  if (way == 1) doubles_kernel<true><<<blocks_for(n, block), block, 0, s>>>(y, x, n);
  return cudaGetLastError();
}

// ---- bits (0), a hash by multiplications (1), divisions (2) ----
template <int kWay>
__global__ void bits_kernel(unsigned* y, const unsigned* x, int n, int divisor) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  unsigned v = x[i];
  if (kWay == 0) {
    v = __popc(v) + (__clz(v) << 8) ^ __brev(v) ^ __funnelshift_l(v, ~v, v & 31);
    v = __byte_perm(v, x[i], 0x3715) ^ (v & 0x00ff00ff | ~v & 0x0f0f0f0f) ^ __ffs(v);
  } else if (kWay == 1) {
    for (int k = 0; k < 8; ++k) {
      v ^= v >> 16;
      v *= 0x85ebca6bu;
      v ^= v >> 13;
      v += __umulhi(v, 0xc2b2ae35u);
    }
  } else {
    v = v / unsigned(divisor) + v % unsigned(divisor + 2) + int(v) / divisor;
  }
  y[i] = v;
}
extern "C" int bits_u32(unsigned* y, const unsigned* x, int n, int divisor, int block, int way, cudaStream_t s) {
  if (way == 0) bits_kernel<0><<<blocks_for(n, block), block, 0, s>>>(y, x, n, divisor);
  if (way == 1) bits_kernel<1><<<blocks_for(n, block), block, 0, s>>>(y, x, n, divisor);
  if (way == 2) bits_kernel<2><<<blocks_for(n, block), block, 0, s>>>(y, x, n, divisor);
  return cudaGetLastError();
}

// ---- the special-function unit ----
__device__ __forceinline__ float tanh_approx(float v) {
  float r;
  asm("tanh.approx.f32 %0, %1;" : "=f"(r) : "f"(v));
  return r;
}
template <int kWay>
__global__ void special_kernel(float* y, const float* x, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  float v = x[i];
  if (kWay == 0) v = __expf(v);
  if (kWay == 1) v = __logf(v + 3.0f);
  if (kWay == 2) v = __sinf(v);
  if (kWay == 3) v = tanh_approx(v);
  if (kWay == 4) v = rsqrtf(v + 3.0f);
  if (kWay == 5) v = __fdividef(1.0f, v + 3.0f);
  y[i] = v;
}
extern "C" int special_f32(float* y, const float* x, int n, int block, int way, cudaStream_t s) {
  int grid = blocks_for(n, block);
  if (way == 0) special_kernel<0><<<grid, block, 0, s>>>(y, x, n);
  if (way == 1) special_kernel<1><<<grid, block, 0, s>>>(y, x, n);
  if (way == 2) special_kernel<2><<<grid, block, 0, s>>>(y, x, n);
  if (way == 3) special_kernel<3><<<grid, block, 0, s>>>(y, x, n);
  if (way == 4) special_kernel<4><<<grid, block, 0, s>>>(y, x, n);
  if (way == 5) special_kernel<5><<<grid, block, 0, s>>>(y, x, n);
  return cudaGetLastError();
}
// The library's own functions, in single precision as they are without fast math.
template <int kWay>
__global__ void functions_kernel(float* y, const float* x, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  float v = x[i];
  y[i] = kWay == 0 ? expf(v) : kWay == 1 ? logf(v + 3.0f) : kWay == 2 ? sinf(v) : v / (1.0f + expf(-v));
}
extern "C" int functions_f32(float* y, const float* x, int n, int block, int way, cudaStream_t s) {
  int grid = blocks_for(n, block);
  if (way == 0) functions_kernel<0><<<grid, block, 0, s>>>(y, x, n);
  if (way == 1) functions_kernel<1><<<grid, block, 0, s>>>(y, x, n);
  if (way == 2) functions_kernel<2><<<grid, block, 0, s>>>(y, x, n);
  if (way == 3) functions_kernel<3><<<grid, block, 0, s>>>(y, x, n);
  return cudaGetLastError();
}

// ---- control flow that differs by lane: a loop by the data (0), cases (1) ----
__global__ void collatz_kernel(int* y, const int* x, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  unsigned v = unsigned(x[i]) % 64 + 1;
  int steps = 0;
  while (v != 1) {
    v = v & 1 ? 3 * v + 1 : v >> 1;
    ++steps;
  }
  y[i] = steps;
}
__global__ void cases_kernel(int* y, const int* x, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  int v = x[i];
  switch (v & 7) {
    case 0: v = v * 3 + 1; break;
    case 1: for (int k = 0; k < 5; ++k) v = v * v ^ k; break;
    case 2: v = __popc(v); break;
    case 3: for (int k = 0; k < (v >> 3 & 7); ++k) v += v << 1; break;
    case 4: v = ~v; break;
    case 5: v = v / 7; break;
    case 6: v = __clz(v) * 11; break;
    default: v = v >> 2;
  }
  y[i] = v;
}
extern "C" int divergent_i32(int* y, const int* x, int n, int block, int way, cudaStream_t s) {
  if (way == 0) collatz_kernel<<<blocks_for(n, block), block, 0, s>>>(y, x, n);
  if (way == 1) cases_kernel<<<blocks_for(n, block), block, 0, s>>>(y, x, n);
  return cudaGetLastError();
}
