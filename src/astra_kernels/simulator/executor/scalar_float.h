// Scalar floating-point functions shared by the 32-, 64- and 16-bit families.
#pragma once

#include <cmath>

#include "formats.h"

namespace astra {

struct FloatAdd {
  template <class T>
  static T of(T a, T b) { return a + b; }
};
struct FloatSub {
  template <class T>
  static T of(T a, T b) { return a - b; }
};
struct FloatMul {
  template <class T>
  static T of(T a, T b) { return a * b; }
};
struct FloatDiv {
  template <class T>
  static T of(T a, T b) { return a / b; }
};
struct FloatFma {
  static float of(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
  static double of(double a, double b, double c) { return __builtin_fma(a, b, c); }
};
struct FloatNeg {
  template <class T>
  static T of(T a) { return -a; }
};
struct FloatAbs {
  template <class T>
  static T of(T a) { return std::fabs(a); }
};
struct FloatSqrt {
  template <class T>
  static T of(T a) { return std::sqrt(a); }
};
struct FloatReciprocal {
  template <class T>
  static T of(T a) { return T(1) / a; }
};

// PTX: a NaN loses against a number unless `.NaN` is given, and -0 is below +0.
template <bool PropagateNan>
struct FloatMin {
  template <class T>
  static T of(T a, T b) {
    T smaller = a < b || (a == b && std::signbit(a)) ? a : b;
    if (PropagateNan) return a != a ? a : b != b ? b : smaller;
    return a != a ? b : b != b ? a : smaller;
  }
};
template <bool PropagateNan>
struct FloatMax {
  template <class T>
  static T of(T a, T b) {
    T larger = a > b || (a == b && !std::signbit(a)) ? a : b;
    if (PropagateNan) return a != a ? a : b != b ? b : larger;
    return a != a ? b : b != b ? a : larger;
  }
};

// `.xorsign.abs`: of the magnitudes, with the product's sign.
template <class Fn>
struct OfMagnitudes {
  template <class T>
  static T of(T a, T b) {
    T magnitude = Fn::of(std::fabs(a), std::fabs(b));
    if (magnitude != magnitude) return magnitude;
    return std::signbit(a) != std::signbit(b) ? -magnitude : magnitude;
  }
};

// `.sat`: into [0, 1], NaN to +0.
template <class Fn>
struct Saturated {
  template <class... T>
  static auto of(T... values) {
    auto r = Fn::of(values...);
    using R = decltype(r);
    return r > R(0) ? (r < R(1) ? r : R(1)) : R(0);
  }
};

// `.relu`: into [0, inf), NaN stays.
template <class Fn>
struct Rectified {
  template <class... T>
  static auto of(T... values) {
    auto r = Fn::of(values...);
    using R = decltype(r);
    return r > R(0) || r != r ? r : R(0);
  }
};

}  // namespace astra
