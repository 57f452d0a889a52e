// wmma in every shape and layout: C = A B + C for one tile.
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <mma.h>

using namespace nvcuda;

template <int M, int N, int K, class T, class Acc, class LayoutA, class LayoutB>
__global__ void tile(const T* a, const T* b, Acc* c, int lda, int ldb, int ldc, bool column_major) {
  extern __shared__ __align__(32) unsigned char bytes[];
  T* staged = reinterpret_cast<T*>(bytes);
  for (int i = threadIdx.x; i < M * K; i += 32) staged[i] = a[i];
  __syncwarp();
  wmma::fragment<wmma::matrix_a, M, N, K, T, LayoutA> fa;
  wmma::fragment<wmma::matrix_b, M, N, K, T, LayoutB> fb;
  wmma::fragment<wmma::accumulator, M, N, K, Acc> fc;
  const auto layout = column_major ? wmma::mem_col_major : wmma::mem_row_major;
  wmma::load_matrix_sync(fa, staged, lda);
  wmma::load_matrix_sync(fb, b, ldb);
  wmma::load_matrix_sync(fc, c, ldc, layout);
  wmma::mma_sync(fc, fa, fb, fc);
  for (int i = 0; i < fc.num_elements; ++i) fc.x[i] = fc.x[i] + fc.x[i];
  wmma::store_matrix_sync(c, fc, ldc, layout);
}

template <int M, int N, int K, class T, class Acc>
int run(const void* a, const void* b, void* c, int layouts) {
  const bool ca = layouts & 1, cb = layouts & 2, cc = layouts & 4;
  const int lda = ca ? M : K, ldb = cb ? K : N, ldc = cc ? M : N, bytes = M * K * sizeof(T);
  auto go = [&](auto kernel) { kernel<<<1, 32, bytes>>>((const T*)a, (const T*)b, (Acc*)c, lda, ldb, ldc, cc); };
  if (ca && cb) go(tile<M, N, K, T, Acc, wmma::col_major, wmma::col_major>);
  else if (ca) go(tile<M, N, K, T, Acc, wmma::col_major, wmma::row_major>);
  else if (cb) go(tile<M, N, K, T, Acc, wmma::row_major, wmma::col_major>);
  else go(tile<M, N, K, T, Acc, wmma::row_major, wmma::row_major>);
  return cudaGetLastError();
}

#define SHAPES(name, T, Acc)                                              \
  int name##_16(const void* a, const void* b, void* c, int l) { return run<16, 16, 16, T, Acc>(a, b, c, l); } \
  int name##_32(const void* a, const void* b, void* c, int l) { return run<32, 8, 16, T, Acc>(a, b, c, l); }  \
  int name##_8(const void* a, const void* b, void* c, int l) { return run<8, 32, 16, T, Acc>(a, b, c, l); }

extern "C" {
SHAPES(f16, half, float)
SHAPES(h16, half, half)
SHAPES(bf16, __nv_bfloat16, float)
SHAPES(s8, signed char, int)
SHAPES(u8, unsigned char, int)

__global__ void doubles(const double* a, const double* b, double* c) {
  wmma::fragment<wmma::matrix_a, 8, 8, 4, double, wmma::row_major> fa;
  wmma::fragment<wmma::matrix_b, 8, 8, 4, double, wmma::col_major> fb;
  wmma::fragment<wmma::accumulator, 8, 8, 4, double> fc;
  wmma::load_matrix_sync(fa, a, 4);
  wmma::load_matrix_sync(fb, b, 4);
  wmma::fill_fragment(fc, 1.0);
  wmma::mma_sync(fc, fa, fb, fc);
  wmma::store_matrix_sync(c, fc, 8, wmma::mem_row_major);
}
int f64(const double* a, const double* b, double* c) {
  doubles<<<1, 32>>>(a, b, c);
  return cudaGetLastError();
}
__global__ void rounded(const float* a, const float* b, float* c) {
  wmma::fragment<wmma::matrix_a, 16, 16, 8, wmma::precision::tf32, wmma::row_major> fa;
  wmma::fragment<wmma::matrix_b, 16, 16, 8, wmma::precision::tf32, wmma::row_major> fb;
  wmma::fragment<wmma::accumulator, 16, 16, 8, float> fc;
  wmma::load_matrix_sync(fa, a, 8);
  wmma::load_matrix_sync(fb, b, 16);
  for (int i = 0; i < fa.num_elements; ++i) fa.x[i] = wmma::__float_to_tf32(fa.x[i]);
  for (int i = 0; i < fb.num_elements; ++i) fb.x[i] = wmma::__float_to_tf32(fb.x[i]);
  wmma::fill_fragment(fc, 0.0f);
  wmma::mma_sync(fc, fa, fb, fc);
  wmma::store_matrix_sync(c, fc, 16, wmma::mem_row_major);
}
int tf32(const float* a, const float* b, float* c) {
  rounded<<<1, 32>>>(a, b, c);
  return cudaGetLastError();
}
}
