// What kernels ask of the system around them: printing, assertions, calls, questions about the launch.
#include <cassert>
#include <cstdio>
#include <cuda_runtime.h>

__global__ void speak(const float* x, const char* suffix, int n) {
  if (threadIdx.x >= n) return;
  const char* word = threadIdx.x % 2 ? "odd" : "even";
  printf("thread %d: %s %8.3f|%-6d|%06x|%lld|%c%%\n", threadIdx.x, word, x[threadIdx.x], -7, 48879, 1ll << 40, 'z');
  if (threadIdx.x == 0) printf("%*d|%.*e|%5s|%u|%zu|%hhd\n", 5, 42, 2, 1234.5, suffix, 4000000000u, size_t(9), 300);
  if (threadIdx.x == 1) printf("plain text\n");
}
__global__ void flood(int lines) {
  for (int i = 0; i < lines; ++i) printf("%0100d\n", i);
}
__global__ void check(const int* y) {
  assert(y[threadIdx.x] < 100 && "too large");  // here: assert
}
__global__ void stop(const int* y) {
  if (y[threadIdx.x] == 3) __brkpt();  // here: brkpt
}
__device__ __noinline__ int twice_or_thrice(int x, bool thrice) { return thrice ? 3 * x : 2 * x; }
__global__ void call(int* y) { y[threadIdx.x] = twice_or_thrice(y[threadIdx.x], threadIdx.x % 3 == 0); }
__device__ int fibonacci(int n) { return n < 2 ? n : fibonacci(n - 1) + fibonacci(n - 2); }
__global__ void recursive(int* y) { y[threadIdx.x] = fibonacci(threadIdx.x); }
typedef int (*Function)(int);
__device__ int first(int x) { return x + 1; }
__device__ int second(int x) { return x * 2; }
__device__ Function functions[2] = {first, second};
__global__ void pointer(int* y) { y[threadIdx.x] = functions[y[0] & 1](y[threadIdx.x]); }
struct Base {
  virtual __device__ int of(int x) = 0;
};
struct One : Base {
  __device__ int of(int x) override { return x + 1; }
};
struct Two : Base {
  __device__ int of(int x) override { return x * 2; }
};
__global__ void dynamic(int* y, int which) {
  One one;
  Two two;
  Base* base = which ? (Base*)&one : (Base*)&two;
  y[threadIdx.x] = base->of(y[threadIdx.x]);
}
__global__ void heap(int** y) { y[threadIdx.x] = (int*)malloc(64); }

extern "C" {
int speaks(const float* x, const char* suffix, int n) { speak<<<1, 32>>>(x, suffix, n); return cudaGetLastError(); }
int floods(int lines) { flood<<<1, 1>>>(lines); return cudaGetLastError(); }
int checks(int* y) { check<<<1, 64>>>(y); return cudaGetLastError(); }
int stops(int* y) { stop<<<1, 32>>>(y); return cudaGetLastError(); }
int calls(int* y) { call<<<1, 32>>>(y); return cudaGetLastError(); }
int recurses(int* y) { recursive<<<1, 8>>>(y); return cudaGetLastError(); }
int points(int* y) { pointer<<<1, 32>>>(y); return cudaGetLastError(); }
int dispatches(int* y) { dynamic<<<1, 32>>>(y, 1); return cudaGetLastError(); }
int allocates(int** y) { heap<<<1, 32>>>(y); return cudaGetLastError(); }
}
