#include <torch/extension.h>

#include <string>

void rms_norm(torch::Tensor& out, const torch::Tensor& input, const torch::Tensor& weight,
              const std::optional<torch::Tensor>& residual, double epsilon, const std::string& layout);

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
  m.def("rms_norm", &rms_norm, "RMS norm by rows");
}
