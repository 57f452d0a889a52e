#pragma once

#include <cuda_runtime.h>
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/extra/c_env_api.h>

#include <cstdint>

namespace jit {

inline unsigned int blocks(int64_t elements, int threads) {
  return static_cast<unsigned int>((elements + threads - 1) / threads);
}

inline cudaStream_t stream(tvm::ffi::TensorView tensor) {
  const auto device = tensor.device();
  return static_cast<cudaStream_t>(TVMFFIEnvGetStream(device.device_type, device.device_id));
}

}  // namespace jit
