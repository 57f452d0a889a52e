#include <cuda_fp16.h>
#include <jit/launch.cuh>
#include <tvm/ffi/container/tensor.h>

#include <cstdint>

namespace {

template <typename T, int kThreads>
__global__ void scale_kernel(T* __restrict__ out, const T* __restrict__ in, float factor, int64_t elements) {
  const int64_t i = blockIdx.x * static_cast<int64_t>(kThreads) + threadIdx.x;
  if (i < elements) out[i] = static_cast<T>(static_cast<float>(in[i]) * factor);
}

template <typename T, int kThreads>
struct ScaleKernel {
  static void run(tvm::ffi::TensorView out, tvm::ffi::TensorView in, double factor) {
    const int64_t elements = in.size(0);
    scale_kernel<T, kThreads><<<jit::blocks(elements, kThreads), kThreads, 0, jit::stream(in)>>>(
        static_cast<T*>(out.data_ptr()), static_cast<const T*>(in.data_ptr()), static_cast<float>(factor), elements);
  }
  static int threads() { return kThreads; }
};

struct Unrelated {
  static void run(tvm::ffi::TensorView out) {}
};

}  // namespace
