// Stand-in for a part of PyTorch's C++ API: streams, guards, new tensors. Written from the public API's documentation.
#pragma once

#include "tensor.h"

namespace c10::cuda {

inline cudaStream_t& astra_current_stream() {
  static cudaStream_t current = nullptr;
  return current;
}

class CUDAStream {
 public:
  explicit CUDAStream(cudaStream_t stream) : stream_(stream) {}
  operator cudaStream_t() const { return stream_; }
  cudaStream_t stream() const { return stream_; }
  DeviceIndex device_index() const { return 0; }
  Device device() const { return Device(kCUDA, 0); }

 private:
  cudaStream_t stream_;
};

inline CUDAStream getCurrentCUDAStream(DeviceIndex = -1) { return CUDAStream(astra_current_stream()); }
inline CUDAStream getStreamFromExternal(cudaStream_t stream, DeviceIndex) { return CUDAStream(stream); }
inline DeviceIndex current_device() {
  int device = 0;
  C10_CUDA_CHECK(cudaGetDevice(&device));
  return static_cast<DeviceIndex>(device);
}
inline DeviceIndex device_count() { return 1; }

class CUDAStreamGuard {
 public:
  explicit CUDAStreamGuard(CUDAStream stream) : before_(astra_current_stream()) { astra_current_stream() = stream; }
  CUDAStreamGuard(const CUDAStreamGuard&) = delete;
  ~CUDAStreamGuard() { astra_current_stream() = before_; }

 private:
  cudaStream_t before_;
};

// A simulated machine has one device, so there is nothing to switch.
class CUDAGuard {
 public:
  explicit CUDAGuard(DeviceIndex) {}
  explicit CUDAGuard(Device) {}
  CUDAGuard(const CUDAGuard&) = delete;
  ~CUDAGuard() {}
};

class OptionalCUDAGuard {
 public:
  OptionalCUDAGuard() {}
  explicit OptionalCUDAGuard(std::optional<Device>) {}
  explicit OptionalCUDAGuard(std::optional<DeviceIndex>) {}
  OptionalCUDAGuard(const OptionalCUDAGuard&) = delete;
  ~OptionalCUDAGuard() {}
  void set_device(Device) {}
};

}  // namespace c10::cuda

namespace at {

inline std::optional<Device> device_of(const Tensor& tensor) {
  return tensor.defined() ? std::optional<Device>(tensor.device()) : std::nullopt;
}

namespace cuda {

using namespace c10::cuda;

inline cudaDeviceProp* getDeviceProperties(DeviceIndex device) {
  static cudaDeviceProp properties;
  C10_CUDA_CHECK(cudaGetDeviceProperties(&properties, device));
  return &properties;
}
inline cudaDeviceProp* getCurrentDeviceProperties() { return getDeviceProperties(current_device()); }
inline bool is_available() { return true; }

}  // namespace cuda

inline Tensor empty(IntArrayRef sizes, const TensorOptions& options = {}) {
  TORCH_CHECK(options.device().is_cuda(), "the stand-in for torch makes tensors on the device only");
  int64_t bytes = elementSize(options.dtype().toScalarType());
  for (int64_t size : sizes) bytes *= size;
  void* data = nullptr;
  const cudaStream_t stream = cuda::getCurrentCUDAStream();
  if (bytes > 0) C10_CUDA_CHECK(cudaMallocAsync(&data, static_cast<size_t>(bytes), stream));
  std::shared_ptr<void> owned(data, [stream](void* memory) {
    if (memory != nullptr) cudaFreeAsync(memory, stream);
  });
  const TensorOptions here = options.device(Device(kCUDA, cuda::current_device()));
  return Tensor(std::move(owned), sizes.vec(), astra_dense_strides(sizes), here);
}
inline Tensor empty_like(const Tensor& other) { return empty(other.sizes(), other.options()); }
inline Tensor empty_like(const Tensor& other, const TensorOptions& options) { return empty(other.sizes(), options); }
inline Tensor zeros(IntArrayRef sizes, const TensorOptions& options = {}) {
  Tensor made = empty(sizes, options);
  if (made.nbytes() > 0) {
    C10_CUDA_CHECK(cudaMemsetAsync(made.data_ptr(), 0, made.nbytes(), cuda::getCurrentCUDAStream()));
  }
  return made;
}
inline Tensor zeros_like(const Tensor& other) { return zeros(other.sizes(), other.options()); }

}  // namespace at
