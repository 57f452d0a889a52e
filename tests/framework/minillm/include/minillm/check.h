// SPDX-License-Identifier: Apache-2.0
// Copyright: the Astra authors.

// What operators demand of their tensors.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/util/Exception.h>

#define CHECK_CUDA(x) TORCH_CHECK(x.is_cuda(), #x " must be a CUDA tensor")
#define CHECK_CONTIGUOUS(x) TORCH_CHECK(x.is_contiguous(), #x " must be contiguous")
#define CHECK_INPUT(x) \
  CHECK_CUDA(x);       \
  CHECK_CONTIGUOUS(x)

#define CHECK_DIM(d, x) TORCH_CHECK(x.dim() == d, #x " must have " #d " dimensions")
#define CHECK_EQ(a, b) TORCH_CHECK((a) == (b), "CHECK_EQ(" #a ", " #b ") failed: ", (a), " vs ", (b))
#define CHECK_DTYPE(x, type) TORCH_CHECK(x.scalar_type() == type, #x " must be of type " #type)
#define CHECK_SAME_DTYPE(a, b) TORCH_CHECK(a.scalar_type() == b.scalar_type(), #a " and " #b " differ in type")
#define CHECK_SAME_SHAPE(a, b) TORCH_CHECK(a.sizes() == b.sizes(), #a " and " #b " differ in shape")
