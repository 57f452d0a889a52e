// The special-function unit: ex2, lg2, rcp, rsqrt, sqrt, sin, cos, tanh and approximate division.
//
// The hardware's results differ from the true value by one or two units in the last place (CUDA
// programming guide, "Mathematical functions"); these are the correctly rounded neighbours of it.
#include "registry.h"
#include "scalar_float.h"

namespace astra {
namespace {

// 2^x by a polynomial of degree 8 in double: error below 2^-34, so the rounding to float decides.
struct Exp2 {
  static float of(float value) {
    double x = value;
    x = x < -1000.0 ? -1000.0 : x > 1000.0 ? 1000.0 : x;
    double shifted = x + 0x1.8p52;  // rounds to an integer in the low bits
    double t = (x - (shifted - 0x1.8p52)) * 0.693147180559945309417;
    double p = 1.0 / 40320;
    p = p * t + 1.0 / 5040;
    p = p * t + 1.0 / 720;
    p = p * t + 1.0 / 120;
    p = p * t + 1.0 / 24;
    p = p * t + 1.0 / 6;
    p = p * t + 0.5;
    p = p * t + 1.0;
    p = p * t + 1.0;
    std::int64_t exponent = bit_cast<std::int64_t>(shifted) << 52;
    float result = float(bit_cast<double>(bit_cast<std::int64_t>(p) + exponent));
    return value == value ? result : value;
  }
};
struct Log2 {
  static float of(float value) { return float(std::log2(double(value))); }
};
struct Rsqrt {
  template <class T>
  static T of(T value) { return T(1.0 / std::sqrt(double(value))); }
};
struct Sqrt {
  static float of(float value) { return std::sqrt(value); }
};
struct Reciprocal {
  static float of(float value) { return 1.0f / value; }
};
// rcp.approx.ftz.f64 and rsqrt.approx.ftz.f64 look at the upper 32 bits only and give zeros below.
template <class Fn>
struct UpperHalf {
  static double of(double value) {
    std::uint64_t upper = bit_cast<std::uint64_t>(value) & 0xffffffff00000000ull;
    double input = bit_cast<double>(upper);
    if (std::fabs(input) < DBL_MIN) input = std::copysign(0.0, input);
    double result = Fn::of(input);
    return bit_cast<double>(bit_cast<std::uint64_t>(result) & 0xffffffff00000000ull);
  }
};
struct Sine {
  static float of(float value) { return float(std::sin(double(value))); }
};
struct Cosine {
  static float of(float value) { return float(std::cos(double(value))); }
};
struct Tanh {
  static float of(float value) { return float(std::tanh(double(value))); }
};
// div.approx multiplies by a reciprocal, so that divisors above 2^126 give zero (PTX ISA, "div").
struct DivApprox {
  static float of(float a, float b) {
    if (std::fabs(b) > 0x1p126f && std::fabs(b) <= FLT_MAX)
      return std::fabs(a) > FLT_MAX ? NAN : std::copysign(0.0f, a) * std::copysign(1.0f, b);
    return a / b;
  }
};

template <class F>
void add_single(Registry& table, const std::string& rest) {
  table.unary<Exp2, F, F>("ex2.approx" + rest);
  table.unary<Log2, F, F>("lg2.approx" + rest);
  table.unary<Rsqrt, F, F>("rsqrt.approx" + rest);
  table.unary<Sqrt, F, F>("sqrt.approx" + rest);
  table.unary<Reciprocal, F, F>("rcp.approx" + rest);
  table.unary<Sine, F, F>("sin.approx" + rest);
  table.unary<Cosine, F, F>("cos.approx" + rest);
  table.binary<DivApprox, F, F, F>("div.approx" + rest);
  table.binary<FloatDiv, F, F, F>("div.full" + rest);
}

}  // namespace

void add_approximations(Registry& table) {
  add_single<F32>(table, ".f32");
  add_single<F32Ftz>(table, ".ftz.f32");
  table.unary<Tanh, F32, F32>("tanh.approx.f32");
  table.unary<Tanh, F16, F16>("tanh.approx.f16");
  table.unary<Tanh, F16x2, F16x2>("tanh.approx.f16x2");
  table.unary<Tanh, BF16, BF16>("tanh.approx.bf16");
  table.unary<Tanh, BF16x2, BF16x2>("tanh.approx.bf16x2");
  table.unary<Exp2, F16, F16>("ex2.approx.f16");
  table.unary<Exp2, F16x2, F16x2>("ex2.approx.f16x2");
  table.unary<Exp2, BF16, BF16>("ex2.approx.ftz.bf16");
  table.unary<Exp2, BF16x2, BF16x2>("ex2.approx.ftz.bf16x2");
  table.unary<UpperHalf<FloatReciprocal>, F64, F64>("rcp.approx.ftz.f64");
  table.unary<UpperHalf<Rsqrt>, F64, F64>("rsqrt.approx.ftz.f64");
  table.unary<Rsqrt, F64, F64>("rsqrt.approx.f64");
}

}  // namespace astra
