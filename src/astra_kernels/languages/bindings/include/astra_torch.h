// Calls an operator that takes at::Tensor, with what the public C++ API of torch offers (or its stand-in).
#pragma once

// Not ATen/ATen.h, which takes the compiler twice as long as all of these together.
#include <ATen/core/Tensor.h>
#include <ATen/ops/from_blob.h>
#include <c10/core/TensorOptions.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>

#include <exception>
#include <optional>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>

#include "astra_tensor.h"

namespace astra {

inline at::ScalarType scalar_type(Element element) {
  switch (element) {
    case Element::float64: return at::ScalarType::Double;
    case Element::float32: return at::ScalarType::Float;
    case Element::float16: return at::ScalarType::Half;
    case Element::bfloat16: return at::ScalarType::BFloat16;
    case Element::float8_e4m3fn: return at::ScalarType::Float8_e4m3fn;
    case Element::float8_e5m2: return at::ScalarType::Float8_e5m2;
    case Element::int64: return at::ScalarType::Long;
    case Element::int32: return at::ScalarType::Int;
    case Element::int16: return at::ScalarType::Short;
    case Element::int8: return at::ScalarType::Char;
    case Element::uint8: return at::ScalarType::Byte;
    case Element::boolean: break;
  }
  return at::ScalarType::Bool;
}

template <typename T>
struct IsOptional : std::false_type {};
template <typename T>
struct IsOptional<std::optional<T>> : std::true_type {};

template <typename Parameter, typename Given>
constexpr bool takes() {
  if constexpr (IsOptional<Parameter>::value) {
    if constexpr (std::is_same_v<Given, None>) {
      return true;
    } else {
      return takes<typename Parameter::value_type, Given>();
    }
  } else if constexpr (std::is_same_v<Given, Tensor>) {
    return std::is_same_v<Parameter, at::Tensor>;
  } else if constexpr (std::is_same_v<Given, Text>) {
    return std::is_constructible_v<Parameter, const char*>;
  } else if constexpr (std::is_same_v<Given, Boolean>) {
    return std::is_same_v<Parameter, bool>;
  } else if constexpr (std::is_same_v<Given, Integer>) {
    return std::is_arithmetic_v<Parameter> && !std::is_same_v<Parameter, bool>;
  } else {
    return std::is_same_v<Given, Real> && std::is_floating_point_v<Parameter>;
  }
}

template <typename Parameter, typename Given>
Parameter passed(const Given& given, int device) {
  static_assert(takes<Parameter, Given>(),
                "astra: a parameter of the operator has another type than spec.arguments and the definition say");
  if constexpr (!takes<Parameter, Given>() || std::is_same_v<Given, None>) {
    return Parameter();
  } else if constexpr (std::is_same_v<Given, Tensor>) {
    const auto options = at::TensorOptions()
                             .dtype(scalar_type(given.element))
                             .device(at::Device(at::kCUDA, static_cast<c10::DeviceIndex>(device)));
    const at::IntArrayRef sizes(given.sizes, given.dimensions), strides(given.strides, given.dimensions);
    return at::from_blob(given.data, sizes, strides, options);
  } else {
    return Parameter(given.value);
  }
}

template <typename Result, typename... Parameters, typename... Given>
void invoke(Result (*function)(Parameters...), int device, const Given&... given) {
  static_assert(sizeof...(Parameters) == sizeof...(Given),
                "astra: the operator takes another number of parameters than spec.arguments names");
  if constexpr (sizeof...(Parameters) == sizeof...(Given)) {
    std::tuple<std::decay_t<Parameters>...> values{passed<std::decay_t<Parameters>>(given, device)...};
    std::apply([&](auto&... each) { function(static_cast<Parameters>(each)...); }, values);
  }
}

template <typename Function, typename... Given>
int call(Function function, void* stream, char* message, Given... given) {
  try {
    int device = 0;
    C10_CUDA_CHECK(cudaGetDevice(&device));
    const auto current = c10::cuda::getStreamFromExternal(static_cast<cudaStream_t>(stream),
                                                          static_cast<c10::DeviceIndex>(device));
    c10::cuda::CUDAStreamGuard guard(current);
    invoke(function, device, given...);
    return 0;
  } catch (const c10::Error& error) {
    note(message, "", error.what_without_backtrace(), kMessageBytes);
  } catch (const std::exception& error) {
    note(message, "", error.what(), kMessageBytes);
  }
  return -1;
}

}  // namespace astra
