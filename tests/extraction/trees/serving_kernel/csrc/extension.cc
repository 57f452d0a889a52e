#include <torch/library.h>

#include "serving_ops.h"

TORCH_LIBRARY_FRAGMENT(serving_kernel, m) {
  m.def("silu_and_mul(Tensor! out, Tensor input) -> ()");
  m.impl("silu_and_mul", torch::kCUDA, &silu_and_mul);
  m.def("scale_rows(Tensor! out, Tensor input, Tensor scale) -> ()");
  m.impl("scale_rows", torch::kCUDA, &scale_rows);
}
