// FlashInfer's fused_add_rmsnorm, kernel and launcher unmodified, without programmatic dependent
// launch. The three empty headers beside this file stand in for cuBLAS's and cuRAND's, which
// norm.cuh includes and does not need here.

#include <cuda_bf16.h>
#include <cuda_runtime.h>

#include <cstdint>
#include <flashinfer/norm.cuh>

using Element = __nv_bfloat16;

extern "C" int flashinfer_fused_add_rmsnorm(void* x, void* residual, void* weight, float eps,
                                            int64_t tokens, int64_t hidden, cudaStream_t stream) {
  const uint32_t rows = static_cast<uint32_t>(tokens);
  const uint32_t columns = static_cast<uint32_t>(hidden);
  const cudaError_t status = flashinfer::norm::FusedAddRMSNorm<Element>(
      static_cast<Element*>(x), static_cast<Element*>(residual), static_cast<Element*>(weight),
      rows, columns, columns, columns, eps, false, stream);
  const cudaError_t last = cudaGetLastError();
  return status != cudaSuccess ? status : last;
}
