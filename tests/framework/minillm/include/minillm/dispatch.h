// SPDX-License-Identifier: Apache-2.0
// Copyright: the Astra authors.

// From what is known when an operator is called to template arguments.
#pragma once

#include <c10/core/ScalarType.h>
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "check.h"

#define DISPATCH_CASE_TYPE(scalar, native, c_type, ...) \
  case scalar: {                                        \
    using c_type = native;                              \
    return __VA_ARGS__();                               \
  }

// Runs a lambda in which `c_type` is the element type.
#define DISPATCH_FLOAT_TYPES(dtype, c_type, ...)                                                \
  [&] {                                                                                         \
    switch (dtype) {                                                                            \
      DISPATCH_CASE_TYPE(at::ScalarType::Float, float, c_type, __VA_ARGS__)                     \
      DISPATCH_CASE_TYPE(at::ScalarType::Half, __half, c_type, __VA_ARGS__)                     \
      DISPATCH_CASE_TYPE(at::ScalarType::BFloat16, __nv_bfloat16, c_type, __VA_ARGS__)          \
      default: TORCH_CHECK(false, "elements of type ", (dtype), " are not supported");           \
    }                                                                                           \
  }()

// Runs a lambda in which `NAME` is a compile-time bool.
#define DISPATCH_BOOL(condition, NAME, ...) \
  [&] {                                     \
    if (condition) {                        \
      constexpr bool NAME = true;           \
      return __VA_ARGS__();                 \
    }                                       \
    constexpr bool NAME = false;            \
    return __VA_ARGS__();                   \
  }()
