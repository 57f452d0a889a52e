// Stand-in for a part of PyTorch's C++ API, for simulated devices, where torch is not installed.
#pragma once

#define ASTRA_TORCH_STAND_IN 1

#include "cuda.h"
#include "dispatch.h"
#include "library.h"

namespace torch {

using namespace at;
namespace cuda = at::cuda;

}  // namespace torch
