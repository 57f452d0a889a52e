// SPDX-License-Identifier: Apache-2.0
// Copyright: the Astra authors.

// What every operator's source includes.
#pragma once

#include <ATen/cuda/CUDAContext.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>

#include <algorithm>
#include <cstdint>

#include "check.h"
#include "dispatch.h"

namespace minillm {

constexpr int ceil_div(int a, int b) { return (a + b - 1) / b; }

// Threads for a row of so many elements or vectors: whole warps, 1024 at most.
inline int threads_for(int64_t work) {
  return static_cast<int>(std::clamp<int64_t>((work + 31) / 32 * 32, 32, 1024));
}

}  // namespace minillm
