// Stand-in for a part of PyTorch's C++ API: dense tensors. Written from the public API's documentation.
#pragma once

#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "errors.h"
#include "scalars.h"

namespace c10 {

template <typename T>
using optional = std::optional<T>;
using std::nullopt;
using string_view = std::string_view;
using DeviceIndex = int8_t;

template <typename T>
class ArrayRef {
 public:
  ArrayRef() = default;
  ArrayRef(const T* data, size_t length) : data_(data), length_(length) {}
  ArrayRef(const std::vector<T>& values) : data_(values.data()), length_(values.size()) {}
  ArrayRef(const std::initializer_list<T>& values) : data_(values.begin()), length_(values.size()) {}
  const T* begin() const { return data_; }
  const T* end() const { return data_ + length_; }
  const T* data() const { return data_; }
  size_t size() const { return length_; }
  bool empty() const { return length_ == 0; }
  const T& operator[](size_t index) const { return data_[index]; }
  const T& front() const { return data_[0]; }
  const T& back() const { return data_[length_ - 1]; }
  std::vector<T> vec() const { return {begin(), end()}; }
  bool equals(ArrayRef other) const { return vec() == other.vec(); }
  friend bool operator==(ArrayRef a, ArrayRef b) { return a.equals(b); }
  friend bool operator!=(ArrayRef a, ArrayRef b) { return !a.equals(b); }
  friend std::ostream& operator<<(std::ostream& out, ArrayRef values) {
    out << "[";
    for (size_t i = 0; i < values.size(); ++i) out << (i ? ", " : "") << values[i];
    return out << "]";
  }

 private:
  const T* data_ = nullptr;
  size_t length_ = 0;
};
using IntArrayRef = ArrayRef<int64_t>;

enum class DeviceType : int8_t { CPU = 0, CUDA = 1 };
constexpr DeviceType kCPU = DeviceType::CPU, kCUDA = DeviceType::CUDA;
inline std::ostream& operator<<(std::ostream& out, DeviceType type) {
  return out << (type == kCUDA ? "cuda" : "cpu");
}

class Device {
 public:
  Device(DeviceType type, DeviceIndex index = -1) : type_(type), index_(index) {}
  DeviceType type() const { return type_; }
  DeviceIndex index() const { return index_; }
  bool has_index() const { return index_ != -1; }
  bool is_cuda() const { return type_ == kCUDA; }
  bool is_cpu() const { return type_ == kCPU; }
  std::string str() const { return c10::str(type_, ":", static_cast<int>(index_)); }
  bool operator==(const Device& other) const { return type_ == other.type_ && index_ == other.index_; }
  bool operator!=(const Device& other) const { return !(*this == other); }
  friend std::ostream& operator<<(std::ostream& out, const Device& device) { return out << device.str(); }

 private:
  DeviceType type_;
  DeviceIndex index_;
};

}  // namespace c10

namespace caffe2 {

class TypeMeta {
 public:
  TypeMeta(c10::ScalarType type) : type_(type) {}
  c10::ScalarType toScalarType() const { return type_; }
  size_t itemsize() const { return c10::elementSize(type_); }
  friend bool operator==(TypeMeta a, TypeMeta b) { return a.type_ == b.type_; }
  friend bool operator!=(TypeMeta a, TypeMeta b) { return a.type_ != b.type_; }
  friend bool operator==(TypeMeta a, c10::ScalarType b) { return a.type_ == b; }
  friend bool operator!=(TypeMeta a, c10::ScalarType b) { return a.type_ != b; }
  friend std::ostream& operator<<(std::ostream& out, TypeMeta type) { return out << type.type_; }

 private:
  c10::ScalarType type_;
};

}  // namespace caffe2

namespace c10 {

inline ScalarType typeMetaToScalarType(caffe2::TypeMeta type) { return type.toScalarType(); }

class TensorOptions {
 public:
  TensorOptions() = default;
  TensorOptions(ScalarType type) : type_(type) {}
  TensorOptions(caffe2::TypeMeta type) : type_(type.toScalarType()) {}
  TensorOptions(Device device) : device_(device) {}
  TensorOptions(DeviceType type) : device_(type) {}
  TensorOptions dtype(ScalarType type) const { return with([&](TensorOptions& o) { o.type_ = type; }); }
  TensorOptions dtype(caffe2::TypeMeta type) const { return dtype(type.toScalarType()); }
  TensorOptions device(Device device) const { return with([&](TensorOptions& o) { o.device_ = device; }); }
  TensorOptions device(DeviceType type, DeviceIndex index = -1) const { return device(Device(type, index)); }
  TensorOptions requires_grad(bool) const { return *this; }
  caffe2::TypeMeta dtype() const { return type_; }
  Device device() const { return device_; }

 private:
  template <typename F>
  TensorOptions with(F change) const {
    TensorOptions changed = *this;
    change(changed);
    return changed;
  }
  ScalarType type_ = kFloat;
  Device device_ = Device(kCPU);
};

}  // namespace c10

namespace at {

using namespace c10;

class Tensor {
 public:
  Tensor() = default;
  Tensor(std::shared_ptr<void> data, std::vector<int64_t> sizes, std::vector<int64_t> strides, TensorOptions options)
      : state_(std::make_shared<State>(
            State{std::move(data), std::move(sizes), std::move(strides), options})) {}

  bool defined() const { return state_ != nullptr; }
  int64_t dim() const { return static_cast<int64_t>(state().sizes.size()); }
  int64_t ndimension() const { return dim(); }
  IntArrayRef sizes() const { return state().sizes; }
  IntArrayRef strides() const { return state().strides; }
  int64_t size(int64_t index) const { return state().sizes[place(index)]; }
  int64_t stride(int64_t index) const { return state().strides[place(index)]; }
  int64_t numel() const {
    int64_t count = 1;
    for (int64_t size : sizes()) count *= size;
    return count;
  }
  int64_t element_size() const { return elementSize(scalar_type()); }
  int64_t itemsize() const { return element_size(); }
  size_t nbytes() const { return static_cast<size_t>(numel() * element_size()); }
  int64_t storage_offset() const { return 0; }
  ScalarType scalar_type() const { return state().options.dtype().toScalarType(); }
  caffe2::TypeMeta dtype() const { return state().options.dtype(); }
  TensorOptions options() const { return state().options; }
  Device device() const { return state().options.device(); }
  DeviceIndex get_device() const { return device().index(); }
  bool is_cuda() const { return device().is_cuda(); }
  bool is_cpu() const { return device().is_cpu(); }
  bool is_floating_point() const { return isFloatingType(scalar_type()); }
  bool is_contiguous() const {
    int64_t expected = 1;
    for (int64_t i = dim() - 1; i >= 0; --i) {
      if (size(i) != 1 && stride(i) != expected) return false;
      expected *= size(i);
    }
    return true;
  }
  bool is_same(const Tensor& other) const { return state_ == other.state_; }
  Tensor contiguous() const {
    TORCH_CHECK(is_contiguous(), "the stand-in for torch copies no tensors");
    return *this;
  }
  Tensor view(IntArrayRef sizes) const;
  Tensor reshape(IntArrayRef sizes) const { return view(sizes); }
  Tensor flatten() const { return view({-1}); }

  void* data_ptr() const { return state().data.get(); }
  void* mutable_data_ptr() const { return data_ptr(); }
  const void* const_data_ptr() const { return data_ptr(); }
  template <typename T>
  T* data_ptr() const {
    constexpr ScalarType wanted = CppTypeToScalarType<T>::value;
    TORCH_CHECK(scalar_type() == wanted, "expected scalar type ", wanted, " but found ", scalar_type());
    return static_cast<T*>(data_ptr());
  }
  template <typename T>
  T* mutable_data_ptr() const {
    return data_ptr<T>();
  }
  template <typename T>
  const std::remove_const_t<T>* const_data_ptr() const {
    return data_ptr<std::remove_const_t<T>>();
  }

 private:
  struct State {
    std::shared_ptr<void> data;
    std::vector<int64_t> sizes, strides;
    TensorOptions options;
  };
  const State& state() const {
    TORCH_CHECK(defined(), "the tensor is not defined");
    return *state_;
  }
  size_t place(int64_t index) const {
    TORCH_CHECK(-dim() <= index && index < dim(), "Dimension out of range (a tensor of ", dim(), " dimensions has no ",
                index, ")");
    return static_cast<size_t>(index < 0 ? index + dim() : index);
  }
  std::shared_ptr<State> state_;
};

inline std::vector<int64_t> astra_dense_strides(IntArrayRef sizes) {
  std::vector<int64_t> strides(sizes.size(), 1);
  for (size_t i = sizes.size(); i-- > 1;) strides[i - 1] = strides[i] * (sizes[i] > 1 ? sizes[i] : 1);
  return strides;
}

inline Tensor Tensor::view(IntArrayRef wanted) const {
  TORCH_CHECK(is_contiguous(), "view of a tensor that is not contiguous");
  std::vector<int64_t> sizes = wanted.vec();
  int64_t known = 1;
  for (int64_t size : sizes) known *= size == -1 ? 1 : size;
  for (int64_t& size : sizes) {
    if (size == -1) size = known ? numel() / known : 0;
  }
  int64_t count = 1;
  for (int64_t size : sizes) count *= size;
  TORCH_CHECK(count == numel(), "shape '", wanted, "' is invalid for input of size ", numel());
  return Tensor(state().data, sizes, astra_dense_strides(sizes), options());
}

inline Tensor from_blob(void* data, IntArrayRef sizes, IntArrayRef strides, const TensorOptions& options) {
  return Tensor(std::shared_ptr<void>(data, [](void*) {}), sizes.vec(), strides.vec(), options);
}

}  // namespace at
