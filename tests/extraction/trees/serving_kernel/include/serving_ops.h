#pragma once

#include <torch/all.h>

void silu_and_mul(at::Tensor& out, const at::Tensor& input);
void scale_rows(at::Tensor& out, const at::Tensor& input, const at::Tensor& scale);
