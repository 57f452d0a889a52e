// Stand-in for a part of PyTorch's C++ API: dispatch on element types. Written from the public API's documentation.
#pragma once

#include "tensor.h"

#define AT_DISPATCH_CASE(type, ...)                                     \
  case type: {                                                          \
    using scalar_t [[maybe_unused]] = ::c10::ScalarTypeToCPPTypeT<type>; \
    return __VA_ARGS__();                                               \
  }
#define AT_DISPATCH_SWITCH(TYPE, NAME, ...)                                                              \
  [&] {                                                                                                  \
    const ::c10::ScalarType astra_type = ::astra_scalar_type(TYPE);                                      \
    switch (astra_type) {                                                                                \
      __VA_ARGS__                                                                                        \
      default: AT_ERROR('"', NAME, "\" not implemented for '", ::c10::toString(astra_type), "'");        \
    }                                                                                                    \
  }()

inline c10::ScalarType astra_scalar_type(c10::ScalarType type) { return type; }
inline c10::ScalarType astra_scalar_type(caffe2::TypeMeta type) { return type.toScalarType(); }

#define ASTRA_T(Name) ::c10::ScalarType::Name

#define AT_DISPATCH_CASE_FLOATING_TYPES(...) \
  AT_DISPATCH_CASE(ASTRA_T(Double), __VA_ARGS__) AT_DISPATCH_CASE(ASTRA_T(Float), __VA_ARGS__)
#define AT_DISPATCH_CASE_FLOATING_TYPES_AND(A, ...) \
  AT_DISPATCH_CASE_FLOATING_TYPES(__VA_ARGS__) AT_DISPATCH_CASE(A, __VA_ARGS__)
#define AT_DISPATCH_CASE_FLOATING_TYPES_AND2(A, B, ...) \
  AT_DISPATCH_CASE_FLOATING_TYPES_AND(A, __VA_ARGS__) AT_DISPATCH_CASE(B, __VA_ARGS__)
#define AT_DISPATCH_CASE_FLOATING_TYPES_AND3(A, B, C, ...) \
  AT_DISPATCH_CASE_FLOATING_TYPES_AND2(A, B, __VA_ARGS__) AT_DISPATCH_CASE(C, __VA_ARGS__)
#define AT_DISPATCH_CASE_FLOATING_TYPES_AND4(A, B, C, D, ...) \
  AT_DISPATCH_CASE_FLOATING_TYPES_AND3(A, B, C, __VA_ARGS__) AT_DISPATCH_CASE(D, __VA_ARGS__)
#define AT_DISPATCH_CASE_REDUCED_FLOATING_TYPES(...) \
  AT_DISPATCH_CASE(ASTRA_T(Half), __VA_ARGS__) AT_DISPATCH_CASE(ASTRA_T(BFloat16), __VA_ARGS__)
#define AT_DISPATCH_CASE_INTEGRAL_TYPES(...)                                                        \
  AT_DISPATCH_CASE(ASTRA_T(Byte), __VA_ARGS__) AT_DISPATCH_CASE(ASTRA_T(Char), __VA_ARGS__)         \
  AT_DISPATCH_CASE(ASTRA_T(Int), __VA_ARGS__) AT_DISPATCH_CASE(ASTRA_T(Long), __VA_ARGS__)          \
  AT_DISPATCH_CASE(ASTRA_T(Short), __VA_ARGS__)
#define AT_DISPATCH_CASE_INTEGRAL_TYPES_AND(A, ...) \
  AT_DISPATCH_CASE_INTEGRAL_TYPES(__VA_ARGS__) AT_DISPATCH_CASE(A, __VA_ARGS__)
#define AT_DISPATCH_CASE_ALL_TYPES(...) \
  AT_DISPATCH_CASE_INTEGRAL_TYPES(__VA_ARGS__) AT_DISPATCH_CASE_FLOATING_TYPES(__VA_ARGS__)
#define AT_DISPATCH_CASE_ALL_TYPES_AND(A, ...) \
  AT_DISPATCH_CASE_ALL_TYPES(__VA_ARGS__) AT_DISPATCH_CASE(A, __VA_ARGS__)
#define AT_DISPATCH_CASE_ALL_TYPES_AND2(A, B, ...) \
  AT_DISPATCH_CASE_ALL_TYPES_AND(A, __VA_ARGS__) AT_DISPATCH_CASE(B, __VA_ARGS__)
#define AT_DISPATCH_CASE_ALL_TYPES_AND3(A, B, C, ...) \
  AT_DISPATCH_CASE_ALL_TYPES_AND2(A, B, __VA_ARGS__) AT_DISPATCH_CASE(C, __VA_ARGS__)

#define AT_DISPATCH_FLOATING_TYPES(TYPE, NAME, ...) \
  AT_DISPATCH_SWITCH(TYPE, NAME, AT_DISPATCH_CASE_FLOATING_TYPES(__VA_ARGS__))
#define AT_DISPATCH_FLOATING_TYPES_AND_HALF(TYPE, NAME, ...) \
  AT_DISPATCH_SWITCH(TYPE, NAME, AT_DISPATCH_CASE_FLOATING_TYPES_AND(ASTRA_T(Half), __VA_ARGS__))
#define AT_DISPATCH_FLOATING_TYPES_AND(A, TYPE, NAME, ...) \
  AT_DISPATCH_SWITCH(TYPE, NAME, AT_DISPATCH_CASE_FLOATING_TYPES_AND(A, __VA_ARGS__))
#define AT_DISPATCH_FLOATING_TYPES_AND2(A, B, TYPE, NAME, ...) \
  AT_DISPATCH_SWITCH(TYPE, NAME, AT_DISPATCH_CASE_FLOATING_TYPES_AND2(A, B, __VA_ARGS__))
#define AT_DISPATCH_FLOATING_TYPES_AND3(A, B, C, TYPE, NAME, ...) \
  AT_DISPATCH_SWITCH(TYPE, NAME, AT_DISPATCH_CASE_FLOATING_TYPES_AND3(A, B, C, __VA_ARGS__))
#define AT_DISPATCH_REDUCED_FLOATING_TYPES(TYPE, NAME, ...) \
  AT_DISPATCH_SWITCH(TYPE, NAME, AT_DISPATCH_CASE_REDUCED_FLOATING_TYPES(__VA_ARGS__))
#define AT_DISPATCH_INTEGRAL_TYPES(TYPE, NAME, ...) \
  AT_DISPATCH_SWITCH(TYPE, NAME, AT_DISPATCH_CASE_INTEGRAL_TYPES(__VA_ARGS__))
#define AT_DISPATCH_INTEGRAL_TYPES_AND(A, TYPE, NAME, ...) \
  AT_DISPATCH_SWITCH(TYPE, NAME, AT_DISPATCH_CASE_INTEGRAL_TYPES_AND(A, __VA_ARGS__))
#define AT_DISPATCH_ALL_TYPES(TYPE, NAME, ...) \
  AT_DISPATCH_SWITCH(TYPE, NAME, AT_DISPATCH_CASE_ALL_TYPES(__VA_ARGS__))
#define AT_DISPATCH_ALL_TYPES_AND(A, TYPE, NAME, ...) \
  AT_DISPATCH_SWITCH(TYPE, NAME, AT_DISPATCH_CASE_ALL_TYPES_AND(A, __VA_ARGS__))
#define AT_DISPATCH_ALL_TYPES_AND2(A, B, TYPE, NAME, ...) \
  AT_DISPATCH_SWITCH(TYPE, NAME, AT_DISPATCH_CASE_ALL_TYPES_AND2(A, B, __VA_ARGS__))
#define AT_DISPATCH_ALL_TYPES_AND3(A, B, C, TYPE, NAME, ...) \
  AT_DISPATCH_SWITCH(TYPE, NAME, AT_DISPATCH_CASE_ALL_TYPES_AND3(A, B, C, __VA_ARGS__))
