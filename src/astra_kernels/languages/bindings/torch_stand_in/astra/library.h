// Stand-in for a part of PyTorch's C++ API: registering operators, which is checked by the compiler and never runs.
#pragma once

#include "tensor.h"

namespace c10 {

enum class DispatchKey { CPU, CUDA, Meta, CompositeExplicitAutograd, CompositeImplicitAutograd, Undefined };

}  // namespace c10

namespace torch {

class Library {
 public:
  Library& def(const char*) & { return *this; }
  Library& def(const char*, const std::vector<int>&) & { return *this; }
  template <typename Function, typename... More>
  Library& def(const char*, Function&&, const More&...) & {
    return *this;
  }
  template <typename Key, typename Function>
  Library& impl(const char*, Key, Function&&) & {
    return *this;
  }
  template <typename Function>
  Library& impl(const char*, Function&&) & {
    return *this;
  }
  template <typename... Anything>
  const char* doc(const Anything&...) & {
    return "";
  }
};

}  // namespace torch

#define ASTRA_JOINED_AGAIN(a, b) a##b
#define ASTRA_JOINED(a, b) ASTRA_JOINED_AGAIN(a, b)
#define ASTRA_REGISTRATION(m) [[maybe_unused]] static void ASTRA_JOINED(astra_registration_, __COUNTER__)(::torch::Library & m)
#define TORCH_LIBRARY(ns, m) ASTRA_REGISTRATION(m)
#define TORCH_LIBRARY_FRAGMENT(ns, m) ASTRA_REGISTRATION(m)
#define TORCH_LIBRARY_IMPL(ns, key, m) ASTRA_REGISTRATION(m)
#define PYBIND11_MODULE(name, m) ASTRA_REGISTRATION(m)
