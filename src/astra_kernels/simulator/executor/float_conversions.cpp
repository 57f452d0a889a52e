// cvt between floating-point formats: widths, 16-bit pairs, 8-bit pairs, rounding to an integer.
#include "directed.h"
#include "float8.h"
#include "rounding.h"
#include "scalar_float.h"

namespace astra {
namespace {

struct Same {
  template <class T>
  static T of(T a) { return a; }
};
struct Widen {
  static double of(float a) { return a; }
};
struct ToSingle {
  static float of(double a) { return float(a); }
};
struct ToOdd {
  static float of(double a) { return round_to_odd(a); }
};
struct RoundNearest {
  template <class T>
  static T of(T a) { return std::nearbyint(a); }
};
struct RoundZero {
  template <class T>
  static T of(T a) { return std::trunc(a); }
};
struct RoundDown {
  template <class T>
  static T of(T a) { return std::floor(a); }
};
struct RoundUp {
  template <class T>
  static T of(T a) { return std::ceil(a); }
};

// ---- what must happen to a float before its mantissa is cut -------------------------------------

// Truncation towards zero, so that the later rounding has nothing left to do.
struct TruncateHalf {
  static float of(float a) {
    if (a != a || std::fabs(a) > FLT_MAX) return a;
    if (std::fabs(a) > 65504.0f) return std::copysign(65504.0f, a);
    if (std::fabs(a) < 0x1p-14f)
      return std::copysign(std::trunc(std::fabs(a) * 0x1p24f) * 0x1p-24f, a);
    return bit_cast<float>(bit_cast<std::uint32_t>(a) & ~0x1fffu);
  }
};
struct TruncateBfloat {
  static float of(float a) {
    return a != a ? a : bit_cast<float>(bit_cast<std::uint32_t>(a) & ~0xffffu);
  }
};
template <class Encoding, Direction Toward>
struct Directed {
  template <class T>
  static float of(T a) { return round_toward<Encoding, Toward>(double(a)); }
};
template <class Encoding>
struct Finite {
  static float of(float a) {
    const float limit = std::is_same_v<Encoding, Half> ? 65504.0f : 0x1.fep127f;
    return a > limit ? limit : a < -limit ? -limit : a;
  }
};
template <class Outer, class Inner>
struct Then {
  static float of(float a) { return Outer::of(Inner::of(a)); }
};

// tf32 keeps 10 bits of the mantissa; rna rounds ties away from zero.
template <bool TiesAway>
struct ToTf32 {
  static float of(float a) {
    std::uint32_t bits = bit_cast<std::uint32_t>(a);
    if ((bits & 0x7f800000u) == 0x7f800000u) return a;
    bits += TiesAway ? 0x1000u : 0xfffu + (bits >> 13 & 1u);
    return bit_cast<float>(bits & ~0x1fffu);
  }
};

// ---- pairs ---------------------------------------------------------------------------------

// cvt d, a, b: a becomes the upper half, b the lower one.
template <class Fn, class Out>
struct PackPair : Signature<Out, F32, F32> {
  static void run(void* result, const void* const* sources) {
    Values<F32> upper(sources[0]), lower(sources[1]);
    Values<Out> both;
    for (int i = 0; i < kLanes; ++i) both.v[2 * i] = Fn::of(lower.v[i]);
    for (int i = 0; i < kLanes; ++i) both.v[2 * i + 1] = Fn::of(upper.v[i]);
    Out::store(both.v, result);
  }
};

template <class Code>
struct Pair8 {
  using Value = float;
  static constexpr int kCount = 2 * kLanes;
  static void load(const void* from, float* to) {
    const std::uint32_t* slot = static_cast<const std::uint32_t*>(from);
    for (int i = 0; i < kCount; ++i) to[i] = Code::decode(slot[i / 2] >> (8 * (i % 2)) & 0xffu);
  }
  static void store(const float* from, void* to) {
    std::uint32_t* slot = static_cast<std::uint32_t*>(to);
    for (int i = 0; i < kLanes; ++i)
      slot[i] = Code::encode(from[2 * i]) | Code::encode(from[2 * i + 1]) << 8;
  }
};

template <class Code>
void add_float8(Registry& table, const std::string& type) {
  using F = Pair8<Code>;
  table.add<PackPair<Same, F>>("cvt.rn.satfinite." + type + ".f32");
  table.add<PackPair<Rectified<Same>, F>>("cvt.rn.satfinite.relu." + type + ".f32");
  table.unary<Same, F, F16x2>("cvt.rn.satfinite." + type + ".f16x2");
  table.unary<Rectified<Same>, F, F16x2>("cvt.rn.satfinite.relu." + type + ".f16x2");
  table.unary<Same, F16x2, F>("cvt.rn.f16x2." + type);
  table.unary<Rectified<Same>, F16x2, F>("cvt.rn.relu.f16x2." + type);
}

// To a 16-bit float from f32, alone and in pairs, with each modifier.
template <class Encoding, class Truncated>
void add_narrowing(Registry& table, const std::string& type) {
  using F = Narrow<Encoding>;
  using Pair = Packed<Encoding>;
  using Limit = Finite<Encoding>;
  auto add = [&](const std::string& modifiers, auto fn) {
    using Fn = decltype(fn);
    table.unary<Fn, F, F32>("cvt" + modifiers + "." + type + ".f32");
    table.add<PackPair<Fn, Pair>>("cvt" + modifiers + "." + type + "x2.f32");
  };
  add(".rn", Same{});
  add(".rz", Truncated{});
  table.unary<Directed<Encoding, Direction::Down>, F, F32>("cvt.rm." + type + ".f32");
  table.unary<Directed<Encoding, Direction::Up>, F, F32>("cvt.rp." + type + ".f32");
  table.unary<Directed<Encoding, Direction::Zero>, F, F64>("cvt.rz." + type + ".f64");
  table.unary<Directed<Encoding, Direction::Down>, F, F64>("cvt.rm." + type + ".f64");
  table.unary<Directed<Encoding, Direction::Up>, F, F64>("cvt.rp." + type + ".f64");
  add(".rn.relu", Rectified<Same>{});
  add(".rz.relu", Rectified<Truncated>{});
  add(".rn.satfinite", Limit{});
  add(".rz.satfinite", Then<Truncated, Limit>{});
  add(".rn.satfinite.relu", Rectified<Limit>{});
  add(".rn.relu.satfinite", Rectified<Limit>{});
}

// ---- one value --------------------------------------------------------------------------------

template <class F>
void add_to_integral(Registry& table, const std::string& rest) {
  table.unary<RoundNearest, F, F>("cvt.rni" + rest);
  table.unary<RoundZero, F, F>("cvt.rzi" + rest);
  table.unary<RoundDown, F, F>("cvt.rmi" + rest);
  table.unary<RoundUp, F, F>("cvt.rpi" + rest);
  table.unary<Saturated<Same>, F, F>("cvt.sat" + rest);
}

}  // namespace

void add_float_conversions(Registry& table) {
  table.unary<Same, F32, F16>("cvt.f32.f16");
  table.unary<Same, F32, F16>("cvt.ftz.f32.f16");
  table.unary<Same, F32, BF16>("cvt.f32.bf16");
  table.unary<Saturated<Same>, F32, F16>("cvt.sat.f32.f16");
  table.unary<Widen, F64, F32>("cvt.f64.f32");
  table.unary<Widen, F64, F32Ftz>("cvt.ftz.f64.f32");
  table.unary<Widen, F64, F16>("cvt.f64.f16");
  table.unary<Widen, F64, BF16>("cvt.f64.bf16");
  table.unary<ToOdd, F16, F64>("cvt.rn.f16.f64");
  table.unary<ToOdd, BF16, F64>("cvt.rn.bf16.f64");
  table.unary<Same, BF16, F16>("cvt.rn.bf16.f16");
  table.unary<Same, F16, BF16>("cvt.rn.f16.bf16");
  table.unary<Same, F16, F32Ftz>("cvt.rn.ftz.f16.f32");
  table.unary<Saturated<Same>, F16, F32>("cvt.rn.sat.f16.f32");
  table.unary<Same, F32Ftz, F32Ftz>("cvt.ftz.f32.f32");
  table.unary<ToTf32<false>, F32, F32>("cvt.rn.tf32.f32");
  table.unary<ToTf32<true>, F32, F32>("cvt.rna.tf32.f32");
  table.unary<Rectified<ToTf32<false>>, F32, F32>("cvt.rn.relu.tf32.f32");
  add_to_integral<F32>(table, ".f32.f32");
  add_to_integral<F32Ftz>(table, ".ftz.f32.f32");
  add_to_integral<F64>(table, ".f64.f64");
  add_to_integral<F16>(table, ".f16.f16");
  add_to_integral<BF16>(table, ".bf16.bf16");
  add_rounded<Map1<ToSingle, F32, F64>>(table, "cvt", ".f32.f64");
  add_rounded<Map1<ToSingle, F32Ftz, F64>>(table, "cvt", ".ftz.f32.f64");
}

void add_packed_conversions(Registry& table) {
  add_narrowing<Half, TruncateHalf>(table, "f16");
  add_narrowing<Bfloat, TruncateBfloat>(table, "bf16");
  add_float8<E4M3>(table, "e4m3x2");
  add_float8<E5M2>(table, "e5m2x2");
}

}  // namespace astra
