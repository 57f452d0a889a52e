// Control flow in macros: nothing here can be read from the syntax tree.
#include <cuda_runtime.h>

#define FOR_EACH_COLUMN(i, n) for (int i = threadIdx.x; i < (n); i += blockDim.x) {
#define END_FOR }
#define ROW_KERNEL(name) __global__ void name(float* x, int n)

ROW_KERNEL(negate_kernel) {
  FOR_EACH_COLUMN(i, n)
    x[blockIdx.x * n + i] = -x[blockIdx.x * n + i];
  END_FOR
}

extern "C" int negate(float* x, int rows, int n, cudaStream_t stream) {
  negate_kernel<<<rows, 128, 0, stream>>>(x, n);
  return cudaGetLastError();
}
