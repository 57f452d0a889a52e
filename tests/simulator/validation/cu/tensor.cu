// Products on tensor cores, a tile a warp, and moves of 8x8 matrices.
#include <mma.h>

#include "common.cuh"

using namespace nvcuda;

// C (n x n, row-major) = A B, both row-major; the block's warps take tiles in turn.
template <int K, class T, class Acc, class In>
__global__ void product_kernel(Acc* c, const In* a, const In* b, int n) {
  const int tiles = n / 16;
  for (int t = (blockIdx.x * blockDim.x + threadIdx.x) / 32; t < tiles * tiles; t += gridDim.x * blockDim.x / 32) {
    const int row = t / tiles * 16, column = t % tiles * 16;
    wmma::fragment<wmma::matrix_a, 16, 16, K, T, wmma::row_major> fa;
    wmma::fragment<wmma::matrix_b, 16, 16, K, T, wmma::row_major> fb;
    wmma::fragment<wmma::accumulator, 16, 16, K, Acc> fc;
    wmma::fill_fragment(fc, Acc(0));
    for (int k = 0; k < n; k += K) {
      wmma::load_matrix_sync(fa, a + row * n + k, n);
      wmma::load_matrix_sync(fb, b + k * n + column, n);
      if constexpr (K == 8) {
        for (int i = 0; i < fa.num_elements; ++i) fa.x[i] = wmma::__float_to_tf32(fa.x[i]);
        for (int i = 0; i < fb.num_elements; ++i) fb.x[i] = wmma::__float_to_tf32(fb.x[i]);
      }
      wmma::mma_sync(fc, fa, fb, fc);
    }
    wmma::store_matrix_sync(c + row * n + column, fc, n, wmma::mem_row_major);
  }
}
__global__ void product_f64_kernel(double* c, const double* a, const double* b, int n) {
  const int tiles = n / 8;
  for (int t = (blockIdx.x * blockDim.x + threadIdx.x) / 32; t < tiles * tiles; t += gridDim.x * blockDim.x / 32) {
    const int row = t / tiles * 8, column = t % tiles * 8;
    wmma::fragment<wmma::matrix_a, 8, 8, 4, double, wmma::row_major> fa;
    wmma::fragment<wmma::matrix_b, 8, 8, 4, double, wmma::row_major> fb;
    wmma::fragment<wmma::accumulator, 8, 8, 4, double> fc;
    wmma::fill_fragment(fc, 0.0);
    for (int k = 0; k < n; k += 4) {
      wmma::load_matrix_sync(fa, a + row * n + k, n);
      wmma::load_matrix_sync(fb, b + k * n + column, n);
      wmma::mma_sync(fc, fa, fb, fc);
    }
    wmma::store_matrix_sync(c + row * n + column, fc, n, wmma::mem_row_major);
  }
}
#define PRODUCT(name, K, T, Acc, In)                                                                              \
  extern "C" int name(Acc* c, const In* a, const In* b, int n, int block, int way, cudaStream_t s) {              \
    product_kernel<K, T, Acc, In><<<4, block, 0, s>>>(c, a, b, n);                                                \
    return cudaGetLastError();                                                                                    \
  }
PRODUCT(product_f16, 16, half, float, half)
PRODUCT(product_f16_sums, 16, half, half, half)
PRODUCT(product_bf16, 16, bf16, float, bf16)
PRODUCT(product_s8, 16, signed char, int, signed char)
PRODUCT(product_u8, 16, unsigned char, int, unsigned char)
PRODUCT(product_tf32, 8, wmma::precision::tf32, float, float)
extern "C" int product_f64(double* c, const double* a, const double* b, int n, int block, int way, cudaStream_t s) {
  product_f64_kernel<<<4, block, 0, s>>>(c, a, b, n);
  return cudaGetLastError();
}

// One m16n8k32 product of 8-bit floats per warp; A is row-major (16 x 32), B column-major (32 x 8).
__global__ void product_e4m3_kernel(float* c, const unsigned* a, const unsigned* b) {
  const int lane = threadIdx.x % 32, tile = blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32;
  const int group = lane / 4, member = lane % 4;
  const unsigned *ta = a + tile * 128, *tb = b + tile * 64;
  float* tc = c + tile * 128;
  float d[4] = {0, 0, 0, 0};
  unsigned a0 = ta[group * 8 + member], a1 = ta[(group + 8) * 8 + member];
  unsigned a2 = ta[group * 8 + member + 4], a3 = ta[(group + 8) * 8 + member + 4];
  unsigned b0 = tb[group * 8 + member], b1 = tb[group * 8 + member + 4];
  asm volatile(
      "mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e4m3.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
  tc[group * 8 + 2 * member] = d[0], tc[group * 8 + 2 * member + 1] = d[1];
  tc[(group + 8) * 8 + 2 * member] = d[2], tc[(group + 8) * 8 + 2 * member + 1] = d[3];
}
extern "C" int product_e4m3(float* c, const unsigned char* a, const unsigned char* b, int tiles, int block, int way, cudaStream_t s) {
  product_e4m3_kernel<<<tiles / (block / 32), block, 0, s>>>(c, (const unsigned*)a, (const unsigned*)b);
  return cudaGetLastError();
}

// Four 8x8 matrices a warp: loaded (transposed or not), transposed between registers, stored (transposed or not).
__global__ void move_matrices_kernel(uint32_t* y, const uint32_t* x, int way) {
  __shared__ __align__(16) uint32_t in[32][128], out[32][128];
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const long long base = (long long)(blockIdx.x * (blockDim.x / 32) + warp) * 128;
  for (int i = lane; i < 128; i += 32) in[warp][i] = x[base + i];
  __syncwarp();
  unsigned from = (unsigned)__cvta_generic_to_shared(&in[warp][4 * lane]);
  unsigned to = (unsigned)__cvta_generic_to_shared(&out[warp][4 * lane]);
  unsigned r[4];
  if (way & 1)
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(from) : "memory");
  else
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(from) : "memory");
  if (way == 2) asm volatile("movmatrix.sync.aligned.m8n8.trans.b16 %0, %0;" : "+r"(r[1]));
  if (way == 3)
    asm volatile("stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%4], {%0,%1,%2,%3};" ::"r"(r[0]), "r"(r[1]), "r"(r[2]),
                 "r"(r[3]), "r"(to) : "memory");
  else
    asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%4], {%0,%1,%2,%3};" ::"r"(r[0]), "r"(r[1]), "r"(r[2]),
                 "r"(r[3]), "r"(to) : "memory");
  __syncwarp();
  for (int i = lane; i < 128; i += 32) y[base + i] = out[warp][i];
}
extern "C" int move_matrices(uint32_t* y, const uint32_t* x, int tiles, int block, int way, cudaStream_t s) {
  move_matrices_kernel<<<tiles / (block / 32), block, 0, s>>>(y, x, way);
  return cudaGetLastError();
}
