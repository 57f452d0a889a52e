// SPDX-License-Identifier: Apache-2.0
// Copyright: the Astra authors.

// The operators of this library, by file.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>

// csrc/activation.cu
void silu_and_mul(at::Tensor& out, const at::Tensor& input);
void gelu_tanh_and_mul(at::Tensor& out, const at::Tensor& input);

// csrc/norm.cu
void rmsnorm(at::Tensor& out, const at::Tensor& input, const at::Tensor& weight, double eps);
void fused_add_rmsnorm(at::Tensor& input, at::Tensor& residual, const at::Tensor& weight, double eps);

// csrc/quant.cu
void per_token_quant_fp8(at::Tensor& output_q, at::Tensor& output_s, const at::Tensor& input,
                         std::optional<double> scale_ub);
void static_quant_fp8(at::Tensor& output_q, const at::Tensor& input, const at::Tensor& scale);
