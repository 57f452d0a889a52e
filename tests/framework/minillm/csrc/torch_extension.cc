// SPDX-License-Identifier: Apache-2.0
// Copyright: the Astra authors.

// Makes the operators known to torch, as torch.ops.minillm.*

#include <torch/library.h>

#include "minillm_ops.h"

TORCH_LIBRARY_FRAGMENT(minillm, m) {
  m.def("silu_and_mul(Tensor! out, Tensor input) -> ()");
  m.impl("silu_and_mul", c10::kCUDA, &silu_and_mul);

  m.def("gelu_tanh_and_mul(Tensor! out, Tensor input) -> ()");
  m.impl("gelu_tanh_and_mul", c10::kCUDA, &gelu_tanh_and_mul);

  m.def("rmsnorm(Tensor! out, Tensor input, Tensor weight, float eps) -> ()");
  m.impl("rmsnorm", c10::kCUDA, &rmsnorm);

  m.def("fused_add_rmsnorm(Tensor! input, Tensor! residual, Tensor weight, float eps) -> ()");
  m.impl("fused_add_rmsnorm", c10::kCUDA, &fused_add_rmsnorm);

  m.def("per_token_quant_fp8(Tensor! output_q, Tensor! output_s, Tensor input, float? scale_ub=None) -> ()");
  m.impl("per_token_quant_fp8", c10::kCUDA, &per_token_quant_fp8);

  m.def("static_quant_fp8(Tensor! output_q, Tensor input, Tensor scale) -> ()");
  m.impl("static_quant_fp8", c10::kCUDA, &static_quant_fp8);
}
