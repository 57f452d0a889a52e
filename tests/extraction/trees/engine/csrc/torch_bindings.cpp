#include <torch/library.h>

void rms_norm(torch::Tensor& out, const torch::Tensor& input, const torch::Tensor& weight, double epsilon);

TORCH_LIBRARY(engine_ops, ops) {
  ops.def("rms_norm(Tensor! result, Tensor input, Tensor weight, float epsilon) -> ()");
  ops.impl("rms_norm", torch::kCUDA, &rms_norm);
}
