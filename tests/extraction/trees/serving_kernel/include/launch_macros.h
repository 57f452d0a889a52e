#pragma once

#include <ATen/cuda/CUDAContext.h>
#include <torch/all.h>

#define CHECK_ON_GPU(x) TORCH_CHECK((x).is_cuda(), #x " must be on a GPU")
#define CHECK_OPERAND(x) \
  CHECK_ON_GPU(x);       \
  TORCH_CHECK((x).is_contiguous(), #x " must be contiguous")

#define FOR_EVERY_FLOAT(TYPE, NAME, ...)                     \
  AT_DISPATCH_SWITCH(TYPE, NAME,                             \
                     AT_DISPATCH_CASE(at::ScalarType::Float, __VA_ARGS__) \
                     AT_DISPATCH_CASE(at::ScalarType::Half, __VA_ARGS__)  \
                     AT_DISPATCH_CASE(at::ScalarType::BFloat16, __VA_ARGS__))
