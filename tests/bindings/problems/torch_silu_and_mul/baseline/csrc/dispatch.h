#pragma once

#include <torch/all.h>

// The macros of a project that serves float, half and bfloat16.
#define SERVED_TYPES(...)                                    \
  AT_DISPATCH_CASE(at::ScalarType::Float, __VA_ARGS__)       \
  AT_DISPATCH_CASE(at::ScalarType::Half, __VA_ARGS__)        \
  AT_DISPATCH_CASE(at::ScalarType::BFloat16, __VA_ARGS__)

#define DISPATCH_SERVED_TYPES(TYPE, NAME, ...) AT_DISPATCH_SWITCH(TYPE, NAME, SERVED_TYPES(__VA_ARGS__))
