// Allocations, copies and fills by a launcher, right ones and wrong ones.
#include <cuda_runtime.h>
#include <string.h>

__device__ int table[64];

__global__ void read_kernel(int* y, const int* x) { y[threadIdx.x] = x[threadIdx.x]; }

static int allocate(int how, void** p, size_t bytes) {
  size_t pitch = 0;
  cudaMemPool_t pool;
  switch (how) {
    case 0: return cudaMalloc(p, bytes);
    case 1: return cudaMallocAsync(p, bytes, 0);
    case 2:
      cudaDeviceGetDefaultMemPool(&pool, 0);
      return cudaMallocFromPoolAsync(p, bytes, pool, 0);
    case 3: return cudaMallocPitch(p, &pitch, bytes >> 10, 1 << 10);
    case 4: return cudaMallocHost(p, bytes);
    case 5: return cudaHostAlloc(p, bytes, 0);
    default: return cudaMallocManaged(p, bytes);
  }
}

extern "C" {
int last_error() { return cudaGetLastError(); }
// Allocates and frees `times` times; gives the first error.
int allocates(int how, int gigabytes, int times) {
  for (int i = 0; i < times; ++i) {
    void* p = nullptr;
    if (int e = allocate(how, &p, size_t(gigabytes) << 30)) return cudaGetLastError() == e ? e : 1000 + e;
    if (int e = how == 4 || how == 5 ? cudaFreeHost(p) : cudaFree(p)) return 2000 + e;
  }
  return 0;
}
// Two at once; the error of the second one.
int twice(int gigabytes) {
  void *p = nullptr, *q = nullptr;
  if (int e = cudaMalloc(&p, size_t(gigabytes) << 30)) return 1000 + e;
  int error = cudaMalloc(&q, size_t(gigabytes) << 30);
  size_t free_now, free_after, total;
  cudaMemGetInfo(&free_now, &total);
  cudaFree(p);
  cudaFree(q);
  cudaMemGetInfo(&free_after, &total);
  return free_after - free_now >= size_t(gigabytes) << 30 && free_after <= total ? error : 3000;
}
// A device buffer of n bytes and 100 bytes of the host; `bytes` from `offset` bytes into the device's.
int copies(char* d, int how, long long offset, long long bytes) {
  static char h[100];
  char* p = d + offset;
  size_t n = size_t(bytes);
  cudaGetLastError();
  switch (how) {
    case 0: return cudaMemcpy(h, p, n, cudaMemcpyDeviceToHost);
    case 1: return cudaMemcpy(p, h, n, cudaMemcpyHostToDevice);
    case 2: return cudaMemcpyAsync(h, p, n, cudaMemcpyDeviceToHost, 0);
    case 3: return cudaMemcpyAsync(p, h, n, cudaMemcpyHostToDevice, 0);
    case 4: return cudaMemcpy(d, p, n, cudaMemcpyDeviceToDevice);
    case 5: return cudaMemcpy(h, p, n, cudaMemcpyDefault);
    case 6: return cudaMemcpy(p, h, n, cudaMemcpyDefault);
    case 7: return cudaMemset(p, 1, n);
    case 8: return cudaMemsetAsync(p, 1, n, 0);
    case 9: return cudaMemset2D(p, 2 * n, 1, n, 2);
    case 10: return cudaMemcpy2D(h, n, p, 2 * n, n, 2, cudaMemcpyDeviceToHost);
    case 11: return cudaMemcpy2DAsync(p, 2 * n, h, n, n, 2, cudaMemcpyHostToDevice, 0);
    case 12: return cudaMemcpyPeer(d, 0, p, 0, n);
    case 13: return cudaMemcpyPeerAsync(d, 0, p, 0, n, 0);
    case 14: return cudaMemset2DAsync(p, 2 * n, 1, n, 2, 0);
    // The kind does not fit.
    case 20: return cudaMemcpy(h, p, n, cudaMemcpyHostToDevice);
    case 21: return cudaMemcpy(p, h, n, cudaMemcpyDeviceToHost);
    case 22: return cudaMemcpy(h, p, n, cudaMemcpyDeviceToDevice);
    case 23: return cudaMemcpy(p, h, n, cudaMemcpyHostToHost);
    case 24: return cudaMemcpy(p, h, n, (cudaMemcpyKind)9);
    case 25: return cudaMemset(h, 1, n);
    // The host's side is nowhere.
    case 30: return cudaMemcpy(p, (void*)64, n, cudaMemcpyHostToDevice);
    case 31: return cudaMemcpy((void*)64, p, n, cudaMemcpyDeviceToHost);
    case 32: return cudaMemcpy(p, (void*)64, n, cudaMemcpyDefault);
    case 33: return cudaMemcpy2D(p, 1, h, n, n, 2, cudaMemcpyHostToDevice);
    default: return 999;
  }
}
int symbols(int how, long long offset, long long bytes) {
  static char h[512];
  size_t n = size_t(bytes), at = size_t(offset);
  switch (how) {
    case 0: return cudaMemcpyToSymbol(table, h, n, at);
    case 1: return cudaMemcpyToSymbolAsync(table, h, n, at, cudaMemcpyHostToDevice, 0);
    case 2: return cudaMemcpyFromSymbol(h, table, n, at);
    default: return cudaMemcpyFromSymbolAsync(h, table, n, at, cudaMemcpyDeviceToHost, 0);
  }
}
// What the host writes without a call, then a kernel reads.
int shared_with_host(int* y, int how) {
  int* p = nullptr;
  cudaGetLastError();
  if (int e = allocate(how, (void**)&p, 32 * sizeof(int))) return e;
  for (int i = 0; i < 32; ++i) p[i] = i + 1;
  read_kernel<<<1, 32>>>(y, p);
  int e = cudaGetLastError();
  how == 4 || how == 5 ? cudaFreeHost(p) : cudaFree(p);
  return e;
}
int wrong_free(int* y) {
  int* p = nullptr;
  cudaMallocHost(&p, 64);
  int e = cudaFree(p) * 100 + cudaFreeHost(y) * 10 + cudaFree((char*)y + 4);
  cudaFreeHost(p);
  return e;
}
}
