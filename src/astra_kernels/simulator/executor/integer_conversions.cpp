// cvt between integers, and between integers and floating point.
#include <limits>

#include "directed.h"
#include "rounding.h"
#include "scalar_float.h"

namespace astra {
namespace {

template <class To>
struct Truncate {
  template <class From>
  static To of(From a) { return To(a); }
};
template <class To>
struct Clamp {
  template <class From>
  static To of(From a) {
    using Limits = std::numeric_limits<To>;
    __int128 wide = a;
    return wide < Limits::min() ? Limits::min() : wide > Limits::max() ? Limits::max() : To(a);
  }
};

enum class ToInteger { Nearest, Zero, Down, Up };

// Out-of-range values saturate; what NaN becomes is laid down in the PTX ISA, "cvt", notes.
template <class To, ToInteger Mode, bool NanIsZero>
struct FloatToInteger {
  template <class From>
  static To of(From value) {
    using Limits = std::numeric_limits<To>;
    if (value != value) return NanIsZero ? To(0) : To(std::uint64_t(1) << (8 * sizeof(To) - 1));
    double x = value;
    if constexpr (Mode == ToInteger::Nearest) x = std::nearbyint(x);
    if constexpr (Mode == ToInteger::Zero) x = std::trunc(x);
    if constexpr (Mode == ToInteger::Down) x = std::floor(x);
    if constexpr (Mode == ToInteger::Up) x = std::ceil(x);
    if (x <= double(Limits::min())) return Limits::min();
    if (x >= double(Limits::max())) return Limits::max();
    return To(x);
  }
};

// An integer as a float that one more rounding turns into the right 16-bit value.
struct IntegerToNarrow {
  template <class From>
  static float of(From value) {
    if constexpr (sizeof(From) == 8) {
      bool large = value > (From(1) << 53) || (std::is_signed_v<From> && value < -(From(1) << 53));
      if (large) value = From((value & ~From(2047)) | (value & From(2047) ? From(2048) : From(0)));
    }
    return round_to_odd(double(value));
  }
};
// The same as a double that is not rounded past a 16-bit value: what does not fit sets its last bit.
template <class Encoding, Direction Toward>
struct IntegerToward {
  template <class From>
  static float of(From value) {
    if constexpr (sizeof(From) == 8) {
      bool large = value > (From(1) << 53) || (std::is_signed_v<From> && value < -(From(1) << 53));
      if (large) value = From((value & ~From(2047)) | (value & From(2047) ? From(2048) : From(0)));
    }
    return round_toward<Encoding, Toward>(double(value));
  }
};
template <class Encoding, class In>
void add_directed(Registry& table, const std::string& types) {
  using F = Narrow<Encoding>;
  table.unary<IntegerToward<Encoding, Direction::Zero>, F, In>("cvt.rz" + types);
  table.unary<IntegerToward<Encoding, Direction::Down>, F, In>("cvt.rm" + types);
  table.unary<IntegerToward<Encoding, Direction::Up>, F, In>("cvt.rp" + types);
}
template <class To>
struct IntegerToFloat {
  template <class From>
  static To of(From value) { return To(value); }
};

template <class Visit>
void each_integer(Visit&& visit) {
  visit("u8", U8{});
  visit("s8", S8{});
  visit("u16", U16{});
  visit("s16", S16{});
  visit("u32", U32{});
  visit("s32", S32{});
  visit("u64", U64{});
  visit("s64", S64{});
}

void add_between_integers(Registry& table) {
  each_integer([&](const std::string& to, auto out) {
    each_integer([&](const std::string& from, auto in) {
      using Out = decltype(out);
      using In = decltype(in);
      using To = typename Out::Value;
      table.unary<Truncate<To>, Out, In>("cvt." + to + "." + from);
      table.unary<Clamp<To>, Out, In>("cvt.sat." + to + "." + from);
    });
  });
}

template <class Out, class In, ToInteger Mode>
void add_to_integer(Registry& table, const std::string& mode, const std::string& types) {
  constexpr bool wide = sizeof(typename Out::Value) == 8 || std::is_same_v<In, F64>;
  using Fn = FloatToInteger<typename Out::Value, Mode, !wide>;
  table.unary<Fn, Out, In>("cvt." + mode + types);
  table.unary<Fn, Out, In>("cvt." + mode + ".sat" + types);
}

template <class In>
void add_float_to_integers(Registry& table, const std::string& ftz, const std::string& from) {
  each_integer([&](const std::string& to, auto out) {
    using Out = decltype(out);
    const std::string types = ftz + "." + to + "." + from;
    add_to_integer<Out, In, ToInteger::Nearest>(table, "rni", types);
    add_to_integer<Out, In, ToInteger::Zero>(table, "rzi", types);
    add_to_integer<Out, In, ToInteger::Down>(table, "rmi", types);
    add_to_integer<Out, In, ToInteger::Up>(table, "rpi", types);
  });
}

template <class Out, class In, class To>
void add_to_float(Registry& table, const std::string& types) {
  add_rounded<Map1<IntegerToFloat<To>, Out, In>>(table, "cvt", types);
}

void add_integers_to_float(Registry& table) {
  each_integer([&](const std::string& from, auto in) {
    using In = decltype(in);
    add_to_float<F32, In, float>(table, ".f32." + from);
    add_to_float<F64, In, double>(table, ".f64." + from);
    table.unary<IntegerToNarrow, F16, In>("cvt.rn.f16." + from);
    table.unary<IntegerToNarrow, BF16, In>("cvt.rn.bf16." + from);
    add_directed<Half, In>(table, ".f16." + from);
    add_directed<Bfloat, In>(table, ".bf16." + from);
  });
}

}  // namespace

void add_integer_conversions(Registry& table) {
  add_between_integers(table);
  add_float_to_integers<F16>(table, "", "f16");
  add_float_to_integers<BF16>(table, "", "bf16");
  add_float_to_integers<F32>(table, "", "f32");
  add_float_to_integers<F32Ftz>(table, ".ftz", "f32");
  add_float_to_integers<F64>(table, "", "f64");
  add_integers_to_float(table);
}

}  // namespace astra
