// setp: every comparison for every type; and set for packed halves.
#include "registry.h"
#include "scalar_float.h"

namespace astra {
namespace {

struct Eq {
  template <class T>
  static bool of(T a, T b) { return a == b; }
};
struct Lt {
  template <class T>
  static bool of(T a, T b) { return a < b; }
};
struct Le {
  template <class T>
  static bool of(T a, T b) { return a <= b; }
};
struct Gt {
  template <class T>
  static bool of(T a, T b) { return a > b; }
};
struct Ge {
  template <class T>
  static bool of(T a, T b) { return a >= b; }
};
// Unequal: false for NaN when ordered ("ne"), true when unordered ("neu").
struct Ne {
  template <class T>
  static bool of(T a, T b) { return a < b || a > b; }
};
struct IsNan {
  template <class T>
  static bool of(T a, T b) { return a != a || b != b; }
};
template <class Fn>
struct Negated {
  template <class T>
  static bool of(T a, T b) { return !Fn::of(a, b); }
};

template <class F>
void add_integer(Registry& table, const std::string& type) {
  table.binary<Eq, Pred, F, F>("setp.eq." + type);
  table.binary<Negated<Eq>, Pred, F, F>("setp.ne." + type);
  table.binary<Lt, Pred, F, F>("setp.lt." + type);
  table.binary<Le, Pred, F, F>("setp.le." + type);
  table.binary<Gt, Pred, F, F>("setp.gt." + type);
  table.binary<Ge, Pred, F, F>("setp.ge." + type);
  table.binary<Lt, Pred, F, F>("setp.lo." + type);
  table.binary<Le, Pred, F, F>("setp.ls." + type);
  table.binary<Gt, Pred, F, F>("setp.hi." + type);
  table.binary<Ge, Pred, F, F>("setp.hs." + type);
}

// `rest` is ".f32", ".ftz.f32", ".f16" and so on.
template <class F, class Visit>
void each_float_comparison(Visit&& visit) {
  visit("eq", Eq{});
  visit("ne", Ne{});
  visit("lt", Lt{});
  visit("le", Le{});
  visit("gt", Gt{});
  visit("ge", Ge{});
  visit("equ", Negated<Ne>{});
  visit("neu", Negated<Eq>{});
  visit("ltu", Negated<Ge>{});
  visit("leu", Negated<Gt>{});
  visit("gtu", Negated<Le>{});
  visit("geu", Negated<Lt>{});
  visit("num", Negated<IsNan>{});
  visit("nan", IsNan{});
}

template <class F>
void add_float(Registry& table, const std::string& rest) {
  each_float_comparison<F>([&](const char* name, auto compare) {
    table.binary<decltype(compare), Pred, F, F>(std::string("setp.") + name + rest);
  });
}

// One half of a packed pair, for setp with two results.
template <class Encoding, int Index>
struct Half1 {
  using Value = float;
  static constexpr int kCount = kLanes;
  static void load(const void* from, float* to) {
    alignas(64) float both[2 * kLanes];
    Packed<Encoding>::load(from, both);
    for (int i = 0; i < kLanes; ++i) to[i] = both[2 * i + Index];
  }
};

template <class Encoding>
void add_packed(Registry& table, const std::string& type) {
  using F = Packed<Encoding>;
  each_float_comparison<F>([&](const char* name, auto compare) {
    using Fn = decltype(compare);
    const std::string compared = std::string(name) + "." + type;
    table.binary<Fn, Pred, Half1<Encoding, 0>, Half1<Encoding, 0>>("setp.low." + compared);
    table.binary<Fn, Pred, Half1<Encoding, 1>, Half1<Encoding, 1>>("setp.high." + compared);
    table.binary<Fn, F, F, F>("set." + compared + "." + type);
  });
}

// testp
struct Finite {
  template <class T>
  static bool of(T a) { return std::isfinite(a); }
};
struct Infinite {
  template <class T>
  static bool of(T a) { return std::isinf(a); }
};
struct NotANumber {
  template <class T>
  static bool of(T a) { return a != a; }
};
struct Number {
  template <class T>
  static bool of(T a) { return a == a; }
};
struct Normal {
  template <class T>
  static bool of(T a) { return std::isnormal(a); }
};
struct Subnormal {
  template <class T>
  static bool of(T a) { return std::fpclassify(a) == FP_SUBNORMAL; }
};

template <class F>
void add_classes(Registry& table, const std::string& type) {
  table.unary<Finite, Pred, F>("testp.finite." + type);
  table.unary<Infinite, Pred, F>("testp.infinite." + type);
  table.unary<Number, Pred, F>("testp.number." + type);
  table.unary<NotANumber, Pred, F>("testp.notanumber." + type);
  table.unary<Normal, Pred, F>("testp.normal." + type);
  table.unary<Subnormal, Pred, F>("testp.subnormal." + type);
}

}  // namespace

void add_comparisons(Registry& table) {
  for (const char* kind : {"u", "b"}) {
    add_integer<U16>(table, std::string(kind) + "16");
    add_integer<U32>(table, std::string(kind) + "32");
    add_integer<U64>(table, std::string(kind) + "64");
  }
  add_integer<S16>(table, "s16");
  add_integer<S32>(table, "s32");
  add_integer<S64>(table, "s64");
  add_float<F32>(table, ".f32");
  add_float<F32Ftz>(table, ".ftz.f32");
  add_float<F64>(table, ".f64");
  add_float<F16>(table, ".f16");
  add_float<BF16>(table, ".bf16");
  add_classes<F32>(table, "f32");
  add_classes<F64>(table, "f64");
  add_packed<Half>(table, "f16x2");
  add_packed<Bfloat>(table, "bf16x2");
}

}  // namespace astra
