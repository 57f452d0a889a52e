// What generated entry points hand to an operator, before it becomes the framework's own type.
#pragma once

#include <cstdint>
#include <cstdio>
#include <initializer_list>

namespace astra {

constexpr int kMessageBytes = 4096;
constexpr int kMostDimensions = 16;

enum class Element {
  float64, float32, float16, bfloat16, float8_e4m3fn, float8_e5m2, int64, int32, int16, int8, uint8, boolean
};

// A dense tensor: strides follow from the sizes.
struct Tensor {
  void* data;
  Element element;
  int dimensions;
  int64_t sizes[kMostDimensions];
  int64_t strides[kMostDimensions];
};

struct None {};
struct Integer { int64_t value; };
struct Real { double value; };
struct Boolean { bool value; };
struct Text { const char* value; };

inline Tensor tensor(void* data, Element element, std::initializer_list<int64_t> sizes) {
  Tensor made{data, element, 0, {}, {}};
  for (int64_t size : sizes) made.sizes[made.dimensions++] = size;
  int64_t stride = 1;
  for (int i = made.dimensions - 1; i >= 0; --i) {
    made.strides[i] = stride;
    stride *= made.sizes[i] > 1 ? made.sizes[i] : 1;
  }
  return made;
}

inline None none() { return {}; }
inline Integer integer(int64_t value) { return {value}; }
inline Real real(double value) { return {value}; }
inline Boolean boolean(bool value) { return {value}; }
inline Text text(const char* value) { return {value}; }

inline void note(char* message, const char* kind, const char* what, int length) {
  snprintf(message, kMessageBytes, "%s%.*s", kind, length, what);
}

}  // namespace astra
