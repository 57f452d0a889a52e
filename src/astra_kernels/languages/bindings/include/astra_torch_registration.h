// Before every source on a machine with torch: operators are called as functions, and two programs of one process
// (baseline and candidate) cannot both register them. What registers them is compiled and never runs.
#pragma once

#include <torch/library.h>
#if __has_include(<Python.h>)
#include <torch/extension.h>
#endif

#define ASTRA_JOINED_AGAIN(a, b) a##b
#define ASTRA_JOINED(a, b) ASTRA_JOINED_AGAIN(a, b)
#define ASTRA_REGISTRATION(m) \
  [[maybe_unused]] static void ASTRA_JOINED(astra_registration_, __COUNTER__)(::torch::Library & m)
#undef TORCH_LIBRARY
#undef TORCH_LIBRARY_FRAGMENT
#undef TORCH_LIBRARY_IMPL
#define TORCH_LIBRARY(ns, m) ASTRA_REGISTRATION(m)
#define TORCH_LIBRARY_FRAGMENT(ns, m) ASTRA_REGISTRATION(m)
#define TORCH_LIBRARY_IMPL(ns, key, m) ASTRA_REGISTRATION(m)

namespace astra {

// Takes what a module of pybind11 takes; the real one would need Python's library at link time.
struct Module {
  template <typename... Anything>
  Module& def(const char*, const Anything&...) {
    return *this;
  }
};

}  // namespace astra

#undef PYBIND11_MODULE
#define PYBIND11_MODULE(name, m) \
  [[maybe_unused]] static void ASTRA_JOINED(astra_registration_, __COUNTER__)(::astra::Module & m)
