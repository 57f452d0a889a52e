// Stand-in for a part of PyTorch's C++ API, for simulated devices, where torch is not installed.
#pragma once

#define ASTRA_TORCH_STAND_IN 1

#include "cuda.h"
#include "dispatch.h"
#include "library.h"

namespace torch {

using namespace at;
using Dtype = c10::ScalarType;
inline c10::TensorOptions dtype(Dtype type) { return type; }
inline c10::TensorOptions device(c10::Device device) { return device; }
namespace cuda = at::cuda;

}  // namespace torch
