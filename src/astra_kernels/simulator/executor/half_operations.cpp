// 16-bit floating-point arithmetic, single and packed: f16, bf16, f16x2, bf16x2.
//
// Sums and products of two such values are exact enough in float that rounding twice equals rounding
// once (24 >= 2 * 11 + 2 bits). A fused multiply-add is not: it goes through double and round-to-odd.
#include "registry.h"
#include "scalar_float.h"

namespace astra {
namespace {

struct NarrowFma {
  static float of(float a, float b, float c) {
    double product = double(a) * double(b), addend = c;  // exact: at most 22 bits
    double sum = product + addend;
    // Knuth's two-sum gives the rounding error; an inexact even sum moves one step towards it.
    double b_part = sum - product;
    double error = (product - (sum - b_part)) + (addend - b_part);
    std::int64_t bits = bit_cast<std::int64_t>(sum);
    bool adjust = error != 0 && error - error == 0 && !(bits & 1);
    std::int64_t step = (error > 0) == (sum > 0) ? 1 : -1;
    return round_to_odd(bit_cast<double>(bits + (adjust ? step : 0)));
  }
};

template <class F, bool Ftz = false>
struct Flushed : F {
  static void load(const void* from, float* to) {
    F::load(from, to);
    for (int i = 0; i < F::kCount; ++i) to[i] = flush_half(to[i]);
  }
  static void store(const float* from, void* to) {
    float flushed[F::kCount], stored[F::kCount];
    F::store(from, to);  // what rounding makes of a value decides whether it is denormal
    F::load(to, stored);
    for (int i = 0; i < F::kCount; ++i) flushed[i] = flush_half(stored[i]);
    F::store(flushed, to);
  }
  static float flush_half(float value) {
    return std::fabs(value) < 0x1p-14f ? std::copysign(0.0f, value) : value;
  }
};

// `rest` ends the name: ".f16", ".ftz.f16x2" and so on.
template <class F>
void add_arithmetic(Registry& table, const std::string& rest) {
  for (const char* rounding : {"", ".rn"}) {
    table.binary<FloatAdd, F, F, F>(std::string("add") + rounding + rest);
    table.binary<FloatSub, F, F, F>(std::string("sub") + rounding + rest);
    table.binary<FloatMul, F, F, F>(std::string("mul") + rounding + rest);
  }
  table.ternary<NarrowFma, F, F, F, F>("fma.rn" + rest);
}

template <class F>
void add_saturating(Registry& table, const std::string& rest) {
  for (const char* rounding : {"", ".rn"}) {
    table.binary<Saturated<FloatAdd>, F, F, F>(std::string("add") + rounding + rest);
    table.binary<Saturated<FloatSub>, F, F, F>(std::string("sub") + rounding + rest);
    table.binary<Saturated<FloatMul>, F, F, F>(std::string("mul") + rounding + rest);
  }
  table.ternary<Saturated<NarrowFma>, F, F, F, F>("fma.rn" + rest);
}

template <class F>
void add_min_max(Registry& table, const std::string& ftz, const std::string& type) {
  table.binary<FloatMin<false>, F, F, F>("min" + ftz + "." + type);
  table.binary<FloatMax<false>, F, F, F>("max" + ftz + "." + type);
  table.binary<FloatMin<true>, F, F, F>("min" + ftz + ".NaN." + type);
  table.binary<FloatMax<true>, F, F, F>("max" + ftz + ".NaN." + type);
  const std::string signs = ".xorsign.abs." + type;
  table.binary<OfMagnitudes<FloatMin<false>>, F, F, F>("min" + ftz + signs);
  table.binary<OfMagnitudes<FloatMax<false>>, F, F, F>("max" + ftz + signs);
  table.binary<OfMagnitudes<FloatMin<true>>, F, F, F>("min" + ftz + ".NaN" + signs);
  table.binary<OfMagnitudes<FloatMax<true>>, F, F, F>("max" + ftz + ".NaN" + signs);
}

// Sign changes touch one bit and must keep a NaN's payload, so they work on the bits.
template <std::uint32_t Clear, std::uint32_t Flip>
struct SignBits {
  static std::uint32_t of(std::uint32_t a) { return (a & ~Clear) ^ Flip; }
};

void add_signs(Registry& table) {
  for (const char* type : {"f16", "bf16", "ftz.f16"}) {
    table.unary<SignBits<0, 0x8000u>, U32, U32>(std::string("neg.") + type);
    table.unary<SignBits<0x8000u, 0>, U32, U32>(std::string("abs.") + type);
  }
  for (const char* type : {"f16x2", "bf16x2", "ftz.f16x2"}) {
    table.unary<SignBits<0, 0x80008000u>, U32, U32>(std::string("neg.") + type);
    table.unary<SignBits<0x80008000u, 0>, U32, U32>(std::string("abs.") + type);
  }
}

template <class F>
void add_type(Registry& table, const std::string& type) {
  add_arithmetic<F>(table, "." + type);
  add_min_max<F>(table, "", type);
  table.ternary<Rectified<NarrowFma>, F, F, F, F>("fma.rn.relu." + type);
}

}  // namespace

void add_half_operations(Registry& table) {
  add_type<F16>(table, "f16");
  add_type<BF16>(table, "bf16");
  add_type<F16x2>(table, "f16x2");
  add_type<BF16x2>(table, "bf16x2");
  add_saturating<F16>(table, ".sat.f16");
  add_saturating<F16x2>(table, ".sat.f16x2");
  add_saturating<Flushed<F16>>(table, ".ftz.sat.f16");
  add_saturating<Flushed<F16x2>>(table, ".ftz.sat.f16x2");
  table.ternary<Rectified<NarrowFma>, Flushed<F16>, Flushed<F16>, Flushed<F16>, Flushed<F16>>(
      "fma.rn.ftz.relu.f16");
  table.ternary<Rectified<NarrowFma>, Flushed<F16x2>, Flushed<F16x2>, Flushed<F16x2>, Flushed<F16x2>>(
      "fma.rn.ftz.relu.f16x2");
  add_arithmetic<Flushed<F16>>(table, ".ftz.f16");
  add_arithmetic<Flushed<F16x2>>(table, ".ftz.f16x2");
  add_min_max<Flushed<F16>>(table, ".ftz", "f16");
  add_min_max<Flushed<F16x2>>(table, ".ftz", "f16x2");
  add_signs(table);
}

}  // namespace astra
