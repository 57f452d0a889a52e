// Calls a function that TVM_FFI_DLL_EXPORT_TYPED_FUNC exported, by the C ABI of apache-tvm-ffi (tvm/ffi/c_api.h).
#pragma once

#include <tvm/ffi/c_api.h>
#include <tvm/ffi/extra/c_env_api.h>

#include <cstring>
#include <type_traits>

#include "astra_tensor.h"

extern "C" int cudaGetDevice(int*);

namespace astra {

inline DLDataType data_type(Element element) {
  switch (element) {
    case Element::float64: return {kDLFloat, 64, 1};
    case Element::float32: return {kDLFloat, 32, 1};
    case Element::float16: return {kDLFloat, 16, 1};
    case Element::bfloat16: return {kDLBfloat, 16, 1};
    case Element::float8_e4m3fn: return {kDLFloat8_e4m3fn, 8, 1};
    case Element::float8_e5m2: return {kDLFloat8_e5m2, 8, 1};
    case Element::int64: return {kDLInt, 64, 1};
    case Element::int32: return {kDLInt, 32, 1};
    case Element::int16: return {kDLInt, 16, 1};
    case Element::int8: return {kDLInt, 8, 1};
    case Element::uint8: return {kDLUInt, 8, 1};
    case Element::boolean: break;
  }
  return {kDLBool, 8, 1};
}

// One argument, with room for the tensor that it may be.
struct Packed {
  TVMFFIAny any;
  DLTensor view;
};

inline void pack(Packed* to, Tensor& from, int device) {
  to->view.data = from.data;
  to->view.device = {kDLCUDA, device};
  to->view.ndim = from.dimensions;
  to->view.dtype = data_type(from.element);
  to->view.shape = from.sizes;
  to->view.strides = from.strides;
  to->view.byte_offset = 0;
  to->any.type_index = kTVMFFIDLTensorPtr;
  to->any.v_ptr = &to->view;
}
inline void pack(Packed* to, None&, int) { to->any.type_index = kTVMFFINone; }
inline void pack(Packed* to, Integer& from, int) {
  to->any.type_index = kTVMFFIInt;
  to->any.v_int64 = from.value;
}
inline void pack(Packed* to, Real& from, int) {
  to->any.type_index = kTVMFFIFloat;
  to->any.v_float64 = from.value;
}
inline void pack(Packed* to, Boolean& from, int) {
  to->any.type_index = kTVMFFIBool;
  to->any.v_int64 = from.value;
}
inline void pack(Packed* to, Text& from, int) {
  to->any.type_index = kTVMFFIRawStr;
  to->any.v_c_str = from.value;
}

// A tensor object that does not own its memory, for parameters of type `Tensor`; `TensorView` takes a view too.
struct Managed {
  DLManagedTensor tensor;
  int64_t sizes[kMostDimensions];
  int64_t strides[kMostDimensions];
};

inline int own(Packed* one) {
  if (one->any.type_index != kTVMFFIDLTensorPtr) return 0;
  auto* made = new Managed{{one->view, nullptr, nullptr}, {}, {}};
  for (int i = 0; i < one->view.ndim; ++i) {
    made->sizes[i] = one->view.shape[i];
    made->strides[i] = one->view.strides[i];
  }
  made->tensor.dl_tensor.shape = made->sizes;
  made->tensor.dl_tensor.strides = made->strides;
  made->tensor.manager_ctx = made;
  made->tensor.deleter = [](DLManagedTensor* self) { delete static_cast<Managed*>(self->manager_ctx); };
  TVMFFIObjectHandle handle = nullptr;
  if (TVMFFITensorFromDLPack(&made->tensor, 0, 0, &handle) != 0) return -1;
  one->any.type_index = kTVMFFITensor;
  one->any.v_obj = static_cast<TVMFFIObject*>(handle);
  return 0;
}

inline int failed(char* message) {
  TVMFFIObjectHandle raised = nullptr;
  TVMFFIErrorMoveFromRaised(&raised);
  if (raised == nullptr) {
    note(message, "", "it says that it failed, but raised no error", 128);
    return -1;
  }
  const TVMFFIErrorCell* error = TVMFFIErrorGetCellPtr(raised);
  char kind[128];
  snprintf(kind, sizeof kind, "%.*s: ", static_cast<int>(error->kind.size), error->kind.data);
  note(message, kind, error->message.data, static_cast<int>(error->message.size));
  TVMFFIObjectDecRef(raised);
  return -1;
}

// Calls it with all tensors as objects, and gives the objects back.
inline int with_objects(TVMFFISafeCallType function, Packed* packed, int count, TVMFFIAny* result) {
  TVMFFIAny plain[64] = {};
  int made = 0;
  int code = count <= 64 ? 0 : -1;
  for (; code == 0 && made < count; ++made) {
    code = own(&packed[made]);
    plain[made] = packed[made].any;
  }
  if (code == 0) code = function(nullptr, plain, count, result);
  for (int i = 0; i < made; ++i)
    if (plain[i].type_index == kTVMFFITensor) TVMFFIObjectDecRef(plain[i].v_obj);
  return code;
}

// Arguments are matched before the operator begins, so that it can be called again.
inline bool wants_objects(const char* message) {
  return strstr(message, "Mismatched type on argument") && strstr(message, "but got `DLTensor*`");
}

template <typename... Arguments>
int call(TVMFFISafeCallType function, void* stream, char* message, Arguments... arguments) {
  int device = 0;
  cudaGetDevice(&device);
  constexpr int count = sizeof...(Arguments);
  Packed packed[count + 1] = {};
  int at = 0;
  (pack(&packed[at++], arguments, device), ...);
  TVMFFIAny plain[count + 1] = {};
  for (int i = 0; i < count; ++i) plain[i] = packed[i].any;
  TVMFFIStreamHandle before = nullptr;
  TVMFFIAny result = {};
  if (TVMFFIEnvSetStream(kDLCUDA, device, stream, &before) != 0) return failed(message);
  static bool objects = false;
  int code = 0;
  if (!objects) {
    code = function(nullptr, plain, count, &result);
    if (code != 0) code = failed(message);
    objects = code != 0 && wants_objects(message);
  }
  if (objects) {
    code = with_objects(function, packed, count, &result);
    if (code != 0) code = failed(message);
  }
  TVMFFIEnvSetStream(kDLCUDA, device, before, nullptr);
  if (code != 0) return code;
  message[0] = 0;
  if (result.type_index >= kTVMFFIStaticObjectBegin) TVMFFIObjectDecRef(result.v_obj);
  return 0;
}

}  // namespace astra
