#include <cuda_bf16.h>
#include <cuda_runtime.h>
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/error.h>
#include <tvm/ffi/extra/c_env_api.h>
#include <tvm/ffi/function.h>
#include <tvm/ffi/optional.h>

namespace {

__device__ float block_sum(float value) {
  __shared__ float partial[32];
  for (int offset = 16; offset > 0; offset /= 2) value += __shfl_xor_sync(0xffffffffu, value, offset);
  if (threadIdx.x % 32 == 0) partial[threadIdx.x / 32] = value;
  __syncthreads();
  float sum = 0.0f;
  for (int warp = 0; warp < blockDim.x / 32; ++warp) sum += partial[warp];
  return sum;
}

__global__ void rmsnorm_kernel(const __nv_bfloat16* x, const __nv_bfloat16* weight,
                               const __nv_bfloat16* residual, __nv_bfloat16* out, int hidden, float eps) {
  const int64_t start = static_cast<int64_t>(blockIdx.x) * hidden;
  float squares = 0.0f;
  for (int i = threadIdx.x; i < hidden; i += blockDim.x) {
    float value = __bfloat162float(x[start + i]);
    if (residual != nullptr) value += __bfloat162float(residual[start + i]);
    squares += value * value;
  }
  const float scale = rsqrtf(block_sum(squares) / hidden + eps);
  for (int i = threadIdx.x; i < hidden; i += blockDim.x) {
    float value = __bfloat162float(x[start + i]);
    if (residual != nullptr) value += __bfloat162float(residual[start + i]);
    out[start + i] = __float2bfloat16_rn(value * scale * __bfloat162float(weight[i]));
  }
}

}  // namespace

namespace norms {

void rmsnorm(const tvm::ffi::TensorView x, const tvm::ffi::TensorView weight,
             const tvm::ffi::Optional<tvm::ffi::TensorView> residual, const tvm::ffi::TensorView out, double eps) {
  TVM_FFI_ICHECK(x.dtype() == weight.dtype() && x.dtype() == out.dtype()) << "element types differ";
  TVM_FFI_ICHECK(x.dtype().code == kDLBfloat) << "rmsnorm takes bfloat16, not " << x.dtype();
  const DLDevice device = x.device();
  const auto stream = static_cast<cudaStream_t>(TVMFFIEnvGetStream(device.device_type, device.device_id));
  using Element = __nv_bfloat16;
  rmsnorm_kernel<<<static_cast<unsigned int>(x.size(0)), 128, 0, stream>>>(
      static_cast<const Element*>(x.data_ptr()), static_cast<const Element*>(weight.data_ptr()),
      residual.has_value() ? static_cast<const Element*>(residual.value().data_ptr()) : nullptr,
      static_cast<Element*>(out.data_ptr()), static_cast<int>(x.size(1)), static_cast<float>(eps));
  const cudaError_t status = cudaGetLastError();
  TVM_FFI_ICHECK(status == cudaSuccess) << cudaGetErrorString(status);
}

}  // namespace norms

TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, norms::rmsnorm);
