#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/error.h>
#include <tvm/ffi/extra/c_env_api.h>
#include <tvm/ffi/function.h>

using tvm::ffi::TensorView;

template <typename T>
__global__ void silu_and_mul_kernel(T* __restrict__ out, const T* __restrict__ x, int hidden) {
  const int64_t row = blockIdx.x;
  for (int i = threadIdx.x; i < hidden; i += blockDim.x) {
    const float gate = static_cast<float>(x[row * 2 * hidden + i]);
    const float up = static_cast<float>(x[row * 2 * hidden + hidden + i]);
    out[row * hidden + i] = static_cast<T>(gate / (1.0f + __expf(-gate)) * up);
  }
}

template <typename T>
cudaError_t launch(TensorView out, TensorView x, int hidden, bool enable_pdl, cudaStream_t stream) {
  cudaLaunchConfig_t config = {};
  config.gridDim = static_cast<unsigned int>(x.size(0));
  config.blockDim = 256;
  config.stream = stream;
  cudaLaunchAttribute attribute[1];
  attribute[0].id = cudaLaunchAttributeProgrammaticStreamSerialization;
  attribute[0].val.programmaticStreamSerializationAllowed = enable_pdl;
  config.attrs = attribute;
  config.numAttrs = 1;
  return cudaLaunchKernelEx(&config, silu_and_mul_kernel<T>, static_cast<T*>(out.data_ptr()),
                            static_cast<const T*>(x.data_ptr()), hidden);
}

void silu_and_mul(TensorView out, TensorView x, bool enable_pdl) {
  TVM_FFI_ICHECK_EQ(x.device().device_type, kDLCUDA) << "x must be a CUDA tensor";
  TVM_FFI_ICHECK_EQ(x.ndim(), 2) << "x must have two dimensions";
  TVM_FFI_ICHECK_EQ(x.stride(1), 1) << "the last dimension of x must be contiguous";
  const int hidden = static_cast<int>(out.size(1));
  TVM_FFI_ICHECK_EQ(x.size(1), 2 * out.size(1)) << "x must be twice as wide as out";
  const auto stream = static_cast<cudaStream_t>(
      TVMFFIEnvGetStream(x.device().device_type, x.device().device_id));
  const DLDataType type = x.dtype();
  cudaError_t status;
  if (type.code == kDLFloat && type.bits == 16) {
    status = launch<__half>(out, x, hidden, enable_pdl, stream);
  } else if (type.code == kDLBfloat && type.bits == 16) {
    status = launch<__nv_bfloat16>(out, x, hidden, enable_pdl, stream);
  } else {
    TVM_FFI_THROW(TypeError) << "silu_and_mul takes float16 and bfloat16, not " << type;
  }
  TVM_FFI_ICHECK(status == cudaSuccess) << cudaGetErrorString(status);
}

TVM_FFI_DLL_EXPORT_TYPED_FUNC(silu_and_mul, silu_and_mul);
