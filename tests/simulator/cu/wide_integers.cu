// 128-bit integers, which nvcc makes of chains of additions and subtractions with carry.
#include <cuda_runtime.h>

template <class T>
__global__ void divide_kernel(const T* a, const T* b, T* out, int n) {
  int i = threadIdx.x;
  out[i] = a[i] / b[i];
  out[n + i] = a[i] % b[i];
  out[2 * n + i] = a[i] * b[i];
  out[3 * n + i] = a[i] - b[i];
}

template <class T>
static int run(const void* a, const void* b, void* out, int n) {
  divide_kernel<T><<<1, n>>>((const T*)a, (const T*)b, (T*)out, n);
  return cudaGetLastError();
}

extern "C" int divide(const void* a, const void* b, void* out, int n, int is_signed) {
  return is_signed ? run<__int128>(a, b, out, n) : run<unsigned __int128>(a, b, out, n);
}
