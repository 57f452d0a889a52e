#include "atomics.h"

#include "formats.h"

namespace astra {
namespace {

using std::uint16_t;
using std::uint32_t;
using std::uint64_t;

template <int Bytes>
using Word = std::conditional_t<Bytes == 2, uint16_t, std::conditional_t<Bytes == 4, uint32_t, uint64_t>>;

// Retries until no other thread came in between. T is how the word is seen by `Fn`.
template <class T, class Fn>
uint64_t update(void* at, uint64_t b, uint64_t c) {
  using W = Word<sizeof(T)>;
  W* word = static_cast<W*>(at);
  W old = __atomic_load_n(word, __ATOMIC_RELAXED);
  for (;;) {
    W fresh = bit_cast<W>(Fn::of(bit_cast<T>(old), bit_cast<T>(W(b)), bit_cast<T>(W(c))));
    if (__atomic_compare_exchange_n(word, &old, fresh, false, __ATOMIC_SEQ_CST, __ATOMIC_RELAXED))
      return old;
  }
}

struct Add {
  template <class T>
  static T of(T old, T b, T) {
    if constexpr (std::is_integral_v<T>) return T(uint64_t(old) + uint64_t(b));
    return T(old + b);
  }
};
struct Min {
  template <class T>
  static T of(T old, T b, T) { return b < old ? b : old; }
};
struct Max {
  template <class T>
  static T of(T old, T b, T) { return b > old ? b : old; }
};
struct And {
  template <class T>
  static T of(T old, T b, T) { return T(old & b); }
};
struct Or {
  template <class T>
  static T of(T old, T b, T) { return T(old | b); }
};
struct Xor {
  template <class T>
  static T of(T old, T b, T) { return T(old ^ b); }
};
struct Exchange {
  template <class T>
  static T of(T, T b, T) { return b; }
};
struct CompareAndSwap {
  template <class T>
  static T of(T old, T b, T c) { return old == b ? c : old; }
};
struct Increment {
  static uint32_t of(uint32_t old, uint32_t b, uint32_t) { return old >= b ? 0 : old + 1; }
};
struct Decrement {
  static uint32_t of(uint32_t old, uint32_t b, uint32_t) {
    return old == 0 || old > b ? b : old - 1;
  }
};
struct AddHalf {
  static uint16_t of(uint16_t old, uint16_t b, uint16_t) {
    return float_to_half(half_to_float(old) + half_to_float(b));
  }
};
struct AddBfloat {
  static uint16_t of(uint16_t old, uint16_t b, uint16_t) {
    return float_to_bfloat(bfloat_to_float(old) + bfloat_to_float(b));
  }
};
// PTX: a NaN loses against a number, and -0 is below +0; the result is one of the two as it is.
template <float (*Widen)(uint16_t), bool Larger>
struct Extreme {
  static uint16_t of(uint16_t old, uint16_t b, uint16_t) {
    const float x = Widen(old), y = Widen(b);
    if (x != x || y != y) return x != x ? (y != y ? uint16_t(0x7fff) : b) : old;
    if (x == y) return (old >> 15 != 0) == Larger ? b : old;
    return (x < y) == Larger ? b : old;
  }
};
template <class One>
struct BothHalves {
  static uint32_t of(uint32_t old, uint32_t b, uint32_t) {
    uint32_t low = One::of(uint16_t(old), uint16_t(b), 0);
    uint32_t high = One::of(uint16_t(old >> 16), uint16_t(b >> 16), 0);
    return low | high << 16;
  }
};

template <class T, class Fn>
void add(std::vector<NamedAtomic>& all, const std::string& name, bool order_matters = false) {
  all.push_back({name, &update<T, Fn>, int(sizeof(T)), order_matters});
}

template <float (*Widen)(uint16_t)>
void add_extremes(std::vector<NamedAtomic>& all, const std::string& type) {
  add<uint16_t, Extreme<Widen, false>>(all, "min.noftz." + type);
  add<uint16_t, Extreme<Widen, true>>(all, "max.noftz." + type);
  add<uint32_t, BothHalves<Extreme<Widen, false>>>(all, "min.noftz." + type + "x2");
  add<uint32_t, BothHalves<Extreme<Widen, true>>>(all, "max.noftz." + type + "x2");
}
template <class T>
void add_order(std::vector<NamedAtomic>& all, const std::string& type) {
  add<T, Add>(all, "add." + type);
  add<T, Min>(all, "min." + type);
  add<T, Max>(all, "max." + type);
}

template <class T>
void add_bits(std::vector<NamedAtomic>& all, const std::string& type) {
  add<T, And>(all, "and." + type);
  add<T, Or>(all, "or." + type);
  add<T, Xor>(all, "xor." + type);
  add<T, Exchange>(all, "exch." + type);
  add<T, CompareAndSwap>(all, "cas." + type);
}

}  // namespace

bool NamedAtomic::combines() const {
  const std::string family = name.substr(0, name.find('.')), type = name.substr(name.rfind('.') + 1);
  const bool whole = type == "u32" || type == "s32" || type == "b32";
  return whole && family != "exch" && family != "cas" && family != "inc" && family != "dec";
}

const std::vector<NamedAtomic>& atomics() {
  static const std::vector<NamedAtomic> all = [] {
    std::vector<NamedAtomic> out;
    add_order<uint32_t>(out, "u32");
    add_order<std::int32_t>(out, "s32");
    add_order<uint64_t>(out, "u64");
    add_order<std::int64_t>(out, "s64");
    add_bits<uint32_t>(out, "b32");
    add_bits<uint64_t>(out, "b64");
    add<uint16_t, CompareAndSwap>(out, "cas.b16");
    add<uint32_t, Increment>(out, "inc.u32");
    add<uint32_t, Decrement>(out, "dec.u32");
    add<float, Add>(out, "add.f32", true);
    add<double, Add>(out, "add.f64", true);
    add<uint16_t, AddHalf>(out, "add.noftz.f16", true);
    add<uint16_t, AddBfloat>(out, "add.noftz.bf16", true);
    add<uint32_t, BothHalves<AddHalf>>(out, "add.noftz.f16x2", true);
    add<uint32_t, BothHalves<AddBfloat>>(out, "add.noftz.bf16x2", true);
    add_extremes<&half_to_float>(out, "f16");
    add_extremes<&bfloat_to_float>(out, "bf16");
    return out;
  }();
  return all;
}

}  // namespace astra
