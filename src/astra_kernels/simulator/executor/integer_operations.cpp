// Integer arithmetic: add, sub, mul, mad, div, rem, min, max, abs, neg, sad, mul24.
#include "registry.h"

namespace astra {
namespace {

using std::int64_t;
using std::uint64_t;

// Arithmetic wraps, which C++ promises for unsigned types only.
template <class T>
using Wrapping = std::conditional_t<sizeof(T) == 8, uint64_t, std::uint32_t>;

struct Add {
  template <class T>
  static T of(T a, T b) { return T(Wrapping<T>(a) + Wrapping<T>(b)); }
};
struct Sub {
  template <class T>
  static T of(T a, T b) { return T(Wrapping<T>(a) - Wrapping<T>(b)); }
};
struct Mul {
  template <class T>
  static T of(T a, T b) { return T(Wrapping<T>(a) * Wrapping<T>(b)); }
};
struct Mad {
  template <class T>
  static T of(T a, T b, T c) { return T(Wrapping<T>(a) * Wrapping<T>(b) + Wrapping<T>(c)); }
};
template <class Wide>
struct MulHigh {
  template <class T>
  static T of(T a, T b) { return T((Wide(a) * Wide(b)) >> (8 * sizeof(T))); }
};
template <class Wide>
struct MadHigh {
  template <class T>
  static T of(T a, T b, T c) { return Add::of(MulHigh<Wide>::of(a, b), c); }
};
template <class Wide>
struct MulWide {
  template <class T>
  static Wide of(T a, T b) { return Wide(Wide(a) * Wide(b)); }
};
template <class Wide>
struct MadWide {
  template <class T>
  static Wide of(T a, T b, Wide c) { return Add::of(Wide(Wide(a) * Wide(b)), c); }
};
struct AddSat {
  static std::int32_t of(std::int32_t a, std::int32_t b) {
    int64_t sum = int64_t(a) + b;
    return std::int32_t(sum > INT32_MAX ? INT32_MAX : sum < INT32_MIN ? INT32_MIN : sum);
  }
};
struct SubSat {
  static std::int32_t of(std::int32_t a, std::int32_t b) {
    int64_t difference = int64_t(a) - b;
    return std::int32_t(difference > INT32_MAX   ? INT32_MAX
                        : difference < INT32_MIN ? INT32_MIN
                                                 : difference);
  }
};
// Division by zero gives all ones, as the hardware does; the smallest number by -1 wraps.
struct Div {
  template <class T>
  static T of(T a, T b) {
    if (b == 0) return T(-1);
    if (std::is_signed_v<T> && b == T(-1)) return Sub::of(T(0), a);
    return T(a / b);
  }
};
struct Rem {
  template <class T>
  static T of(T a, T b) {
    if (b == 0) return a;
    if (std::is_signed_v<T> && b == T(-1)) return 0;
    return T(a % b);
  }
};
struct Min {
  template <class T>
  static T of(T a, T b) { return a < b ? a : b; }
};
struct Max {
  template <class T>
  static T of(T a, T b) { return a > b ? a : b; }
};
struct Neg {
  template <class T>
  static T of(T a) { return Sub::of(T(0), a); }
};
struct Abs {
  template <class T>
  static T of(T a) { return a < 0 ? Sub::of(T(0), a) : a; }
};
struct Sad {
  template <class T>
  static T of(T a, T b, T c) { return Add::of(c, a < b ? Sub::of(b, a) : Sub::of(a, b)); }
};
template <bool High>
struct Mul24 {
  static int64_t signed24(std::int32_t a) { return int64_t(std::int32_t(std::uint32_t(a) << 8) >> 8); }
  static std::int32_t of(std::int32_t a, std::int32_t b) {
    return std::int32_t((signed24(a) * signed24(b)) >> (High ? 16 : 0));
  }
  static std::uint32_t of(std::uint32_t a, std::uint32_t b) {
    return std::uint32_t((uint64_t(a & 0xffffff) * (b & 0xffffff)) >> (High ? 16 : 0));
  }
};
template <bool High>
struct Mad24 {
  template <class T>
  static T of(T a, T b, T c) { return Add::of(Mul24<High>::of(a, b), c); }
};
// Sums of several words: the flag that one step leaves and the next one adds.
struct AddWithCarry {
  template <class T>
  static T of(T a, T b, std::uint8_t carry) { return T(a + b + carry); }
};
struct CarryOfAdd {
  template <class T>
  static bool of(T a, T b, std::uint8_t carry) { return carry ? T(a + b + 1) <= a : T(a + b) < a; }
};
struct SubtractWithBorrow {
  template <class T>
  static T of(T a, T b, std::uint8_t borrow) { return T(a - b - borrow); }
};
struct BorrowOfSubtract {
  template <class T>
  static bool of(T a, T b, std::uint8_t borrow) { return borrow ? a <= b : a < b; }
};
// Four 8-bit products added to a 32-bit sum.
template <class A, class B>
struct Dot4 {
  static std::uint32_t of(std::uint32_t a, std::uint32_t b, std::uint32_t c) {
    for (int i = 0; i < 32; i += 8) c += std::uint32_t(std::int32_t(A(a >> i)) * std::int32_t(B(b >> i)));
    return c;
  }
};

// Two products of halves of `a` with bytes of `b`, from its lower or its upper half.
template <class A, class B, int Shift>
struct Dot2 {
  static std::uint32_t of(std::uint32_t a, std::uint32_t b, std::uint32_t c) {
    for (int i = 0; i < 2; ++i)
      c += std::uint32_t(std::int32_t(A(a >> 16 * i)) * std::int32_t(B(b >> (Shift + 8 * i))));
    return c;
  }
};
struct RectifiedMin {
  static std::int32_t of(std::int32_t a, std::int32_t b) { return Max::of(Min::of(a, b), 0); }
};
struct RectifiedMax {
  static std::int32_t of(std::int32_t a, std::int32_t b) { return Max::of(Max::of(a, b), 0); }
};
// Both halves of a word, each as a T.
template <class T, class Fn>
struct Halves {
  static std::uint32_t of(std::uint32_t a, std::uint32_t b) {
    const std::uint16_t low = std::uint16_t(Fn::of(T(a), T(b)));
    const std::uint16_t high = std::uint16_t(Fn::of(T(a >> 16), T(b >> 16)));
    return low | std::uint32_t(high) << 16;
  }
};
// The distances of four pairs of bytes: side by side, or added to `c`.
template <class T, bool Sum>
struct Distance4 {
  static std::uint32_t of(std::uint32_t a, std::uint32_t b, std::uint32_t c) {
    std::uint32_t out = Sum ? c : 0;
    for (int i = 0; i < 32; i += 8) {
      const int difference = int(T(a >> i)) - int(T(b >> i));
      const std::uint32_t distance = std::uint32_t(difference < 0 ? -difference : difference);
      out += Sum ? distance : distance << i;
    }
    return out;
  }
};

void add_packed(Registry& table) {
  using std::int16_t;
  using std::uint16_t;
  table.binary<Halves<uint16_t, Add>, U32, U32, U32>("add.u16x2");
  table.binary<Halves<int16_t, Add>, U32, U32, U32>("add.s16x2");
  table.binary<Halves<uint16_t, Min>, U32, U32, U32>("min.u16x2");
  table.binary<Halves<uint16_t, Max>, U32, U32, U32>("max.u16x2");
  table.binary<Halves<int16_t, Min>, U32, U32, U32>("min.s16x2");
  table.binary<Halves<int16_t, Max>, U32, U32, U32>("max.s16x2");
  // The PTX ISA writes .relu before the type, nvcc behind it.
  for (const char* type : {"relu.s16x2", "s16x2.relu"}) {
    table.binary<Halves<int16_t, RectifiedMin>, U32, U32, U32>(std::string("min.") + type);
    table.binary<Halves<int16_t, RectifiedMax>, U32, U32, U32>(std::string("max.") + type);
  }
  for (const char* type : {"relu.s32", "s32.relu"}) {
    table.binary<RectifiedMin, S32, S32, S32>(std::string("min.") + type);
    table.binary<RectifiedMax, S32, S32, S32>(std::string("max.") + type);
  }
  table.ternary<Distance4<std::uint8_t, false>, U32, U32, U32, U32>("vabsdiff4.u32.u32.u32");
  table.ternary<Distance4<std::uint8_t, true>, U32, U32, U32, U32>("vabsdiff4.u32.u32.u32.add");
  table.ternary<Distance4<std::int8_t, false>, U32, U32, U32, U32>("vabsdiff4.u32.s32.s32");
  table.ternary<Distance4<std::int8_t, true>, U32, U32, U32, U32>("vabsdiff4.u32.s32.s32.add");
}

template <class A, class B>
void add_dot2(Registry& table, const std::string& types) {
  table.ternary<Dot2<A, B, 0>, U32, U32, U32, U32>("dp2a.lo." + types);
  table.ternary<Dot2<A, B, 16>, U32, U32, U32, U32>("dp2a.hi." + types);
}

template <class F>
void add_common(Registry& table, const std::string& type) {
  table.binary<Add, F, F, F>("add." + type);
  table.binary<Sub, F, F, F>("sub." + type);
  table.binary<Mul, F, F, F>("mul.lo." + type);
  table.ternary<Mad, F, F, F, F>("mad.lo." + type);
  table.binary<Div, F, F, F>("div." + type);
  table.binary<Rem, F, F, F>("rem." + type);
  table.binary<Min, F, F, F>("min." + type);
  table.binary<Max, F, F, F>("max." + type);
  table.ternary<Sad, F, F, F, F>("sad." + type);
}

template <class F, class Wide>
void add_high(Registry& table, const std::string& type) {
  table.binary<MulHigh<Wide>, F, F, F>("mul.hi." + type);
  table.ternary<MadHigh<Wide>, F, F, F, F>("mad.hi." + type);
}

template <class F, class W>
void add_wide(Registry& table, const std::string& type) {
  using Wide = typename W::Value;
  table.binary<MulWide<Wide>, W, F, F>("mul.wide." + type);
  table.ternary<MadWide<Wide>, W, F, F, W>("mad.wide." + type);
}

template <class F>
void add_chains(Registry& table, const std::string& type) {
  table.ternary<AddWithCarry, F, F, F, Pred>("chain.add." + type);
  table.ternary<CarryOfAdd, Pred, F, F, Pred>("chain.carry." + type);
  table.ternary<SubtractWithBorrow, F, F, F, Pred>("chain.sub." + type);
  table.ternary<BorrowOfSubtract, Pred, F, F, Pred>("chain.borrow." + type);
}

template <class F>
void add_signed(Registry& table, const std::string& type) {
  table.unary<Neg, F, F>("neg." + type);
  table.unary<Abs, F, F>("abs." + type);
}

template <class F>
void add_24_bit(Registry& table, const std::string& type) {
  table.binary<Mul24<false>, F, F, F>("mul24.lo." + type);
  table.binary<Mul24<true>, F, F, F>("mul24.hi." + type);
  table.ternary<Mad24<false>, F, F, F, F>("mad24.lo." + type);
  table.ternary<Mad24<true>, F, F, F, F>("mad24.hi." + type);
}

}  // namespace

void add_integer_operations(Registry& table) {
  add_common<U16>(table, "u16");
  add_common<S16>(table, "s16");
  add_common<U32>(table, "u32");
  add_common<S32>(table, "s32");
  add_common<U64>(table, "u64");
  add_common<S64>(table, "s64");
  add_high<U16, std::uint32_t>(table, "u16");
  add_high<S16, std::int32_t>(table, "s16");
  add_high<U32, uint64_t>(table, "u32");
  add_high<S32, int64_t>(table, "s32");
  add_high<U64, unsigned __int128>(table, "u64");
  add_high<S64, __int128>(table, "s64");
  add_wide<U16, U32>(table, "u16");
  add_wide<S16, S32>(table, "s16");
  add_wide<U32, U64>(table, "u32");
  add_wide<S32, S64>(table, "s32");
  add_signed<S16>(table, "s16");
  add_signed<S32>(table, "s32");
  add_signed<S64>(table, "s64");
  add_chains<U32>(table, "u32");
  add_chains<U64>(table, "u64");
  add_24_bit<U32>(table, "u32");
  add_24_bit<S32>(table, "s32");
  table.binary<AddSat, S32, S32, S32>("add.sat.s32");
  table.binary<SubSat, S32, S32, S32>("sub.sat.s32");
  table.ternary<Dot4<std::uint8_t, std::uint8_t>, U32, U32, U32, U32>("dp4a.u32.u32");
  table.ternary<Dot4<std::int8_t, std::int8_t>, U32, U32, U32, U32>("dp4a.s32.s32");
  table.ternary<Dot4<std::uint8_t, std::int8_t>, U32, U32, U32, U32>("dp4a.u32.s32");
  table.ternary<Dot4<std::int8_t, std::uint8_t>, U32, U32, U32, U32>("dp4a.s32.u32");
  add_dot2<std::uint16_t, std::uint8_t>(table, "u32.u32");
  add_dot2<std::int16_t, std::int8_t>(table, "s32.s32");
  add_dot2<std::uint16_t, std::int8_t>(table, "u32.s32");
  add_dot2<std::int16_t, std::uint8_t>(table, "s32.u32");
  add_packed(table);
}

}  // namespace astra
