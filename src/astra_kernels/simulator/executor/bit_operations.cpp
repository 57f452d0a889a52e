// Bits: logic, shifts, fields, permutes, counts; moves, selects and predicate logic.
#include "registry.h"

namespace astra {
namespace {

using std::int64_t;
using std::uint32_t;
using std::uint64_t;

struct And {
  template <class T>
  static T of(T a, T b) { return T(a & b); }
};
struct AndNot {
  template <class T>
  static T of(T a, T b) { return T(a & ~b); }
};
struct Or {
  template <class T>
  static T of(T a, T b) { return T(a | b); }
};
struct OrNot {
  template <class T>
  static T of(T a, T b) { return T(a | ~b); }
};
struct Xor {
  template <class T>
  static T of(T a, T b) { return T(a ^ b); }
};
struct Not {
  template <class T>
  static T of(T a) { return T(~a); }
};
struct LogicalNot {
  template <class T>
  static T of(T a) { return T(a == 0); }
};
struct Move {
  template <class T>
  static T of(T a) { return a; }
};
struct Select {
  template <class T>
  static T of(T a, T b, std::uint8_t p) { return p ? a : b; }
};
// Shift amounts beyond the width clamp (PTX), where C++ leaves them undefined.
struct Shl {
  template <class T>
  static T of(T a, uint32_t n) { return n >= 8 * sizeof(T) ? T(0) : T(uint64_t(a) << n); }
};
struct Shr {
  template <class T>
  static T of(T a, uint32_t n) {
    constexpr uint32_t last = 8 * sizeof(T) - 1;
    if (n > last) return std::is_signed_v<T> ? T(a >> last) : T(0);
    return T(a >> n);
  }
};
template <bool Left, bool Wrap>
struct Funnel {
  static uint32_t of(uint32_t low, uint32_t high, uint32_t amount) {
    uint32_t n = Wrap ? amount & 31u : (amount > 32u ? 32u : amount);
    uint64_t both = uint64_t(high) << 32 | low;
    return Left ? uint32_t((both << n) >> 32) : uint32_t(both >> n);
  }
};
struct PopCount {
  template <class T>
  static uint32_t of(T a) { return uint32_t(__builtin_popcountll(a)); }
};
struct LeadingZeros {
  template <class T>
  static uint32_t of(T a) {
    return a ? uint32_t(__builtin_clzll(a)) - (64 - 8 * sizeof(T)) : 8 * sizeof(T);
  }
};
struct Reverse {
  template <class T>
  static T of(T a) {
    T out = 0;
    for (unsigned i = 0; i < 8 * sizeof(T); ++i) out |= T(a >> i & 1u) << (8 * sizeof(T) - 1 - i);
    return out;
  }
};
// The position of the most significant bit that is not a copy of the sign; ~0 where there is none.
template <bool ShiftAmount>
struct FindLeading {
  template <class T>
  static uint32_t of(T a) {
    using U = std::make_unsigned_t<T>;
    U bits = U(a < 0 ? ~a : a);
    if (!bits) return ~0u;
    uint32_t position = 63u - uint32_t(__builtin_clzll(bits));
    return ShiftAmount ? 8 * sizeof(T) - 1 - position : position;
  }
};
struct ExtractField {
  template <class T>
  static T of(T a, uint32_t b, uint32_t c) {
    using U = std::make_unsigned_t<T>;
    constexpr uint32_t last = 8 * sizeof(T) - 1;
    uint32_t position = b & 0xff, length = c & 0xff;
    bool sign = false;
    if (std::is_signed_v<T> && length) {
      uint32_t top = position + length - 1;
      sign = U(a) >> (top > last ? last : top) & 1u;
    }
    U out = 0;
    for (uint32_t i = 0; i <= last; ++i) {
      bool bit = i < length && position + i <= last ? U(a) >> (position + i) & 1u : sign;
      out |= U(bit) << i;
    }
    return T(out);
  }
};
struct InsertField {
  template <class T>
  static T of(T a, T b, uint32_t c, uint32_t d) {
    uint32_t position = c & 0xff, length = d & 0xff;
    for (uint32_t i = 0; i < length && position + i < 8 * sizeof(T); ++i) {
      T bit = T(1) << (position + i);
      b = (a >> i & 1u) ? b | bit : b & ~bit;
    }
    return b;
  }
};
struct Permute {
  static uint32_t of(uint32_t a, uint32_t b, uint32_t selector) {
    uint64_t bytes = uint64_t(b) << 32 | a;
    uint32_t out = 0;
    for (int i = 0; i < 4; ++i) {
      uint32_t pick = selector >> (4 * i) & 15u;
      uint32_t byte = uint32_t(bytes >> (8 * (pick & 7u))) & 0xffu;
      if (pick & 8u) byte = byte & 0x80u ? 0xffu : 0u;
      out |= byte << (8 * i);
    }
    return out;
  }
};
// Any function of three bits, by its truth table (low 8 bits of `table`).
struct Lop3 {
  static uint32_t of(uint32_t a, uint32_t b, uint32_t c, uint32_t table) {
    uint32_t out = 0;
    for (uint32_t k = 0; k < 8; ++k) {
      uint32_t minterm = (k & 4 ? a : ~a) & (k & 2 ? b : ~b) & (k & 1 ? c : ~c);
      out |= table >> k & 1u ? minterm : 0u;
    }
    return out;
  }
};
// prmt's named modes are permutations that depend on the low bits of the selector.
enum class Bytes { Forward4, Backward4, Replicate8, EdgeLeft, EdgeRight, Replicate16 };
template <Bytes Mode>
struct PermuteBy {
  static uint32_t of(uint32_t a, uint32_t b, uint32_t selector) {
    const uint32_t s = selector & 3u;
    uint32_t picks = 0;
    for (uint32_t i = 0; i < 4; ++i) {
      uint32_t pick = 0;
      switch (Mode) {
        case Bytes::Forward4: pick = s + i; break;
        case Bytes::Backward4: pick = (s + 8 - i) & 7u; break;
        case Bytes::Replicate8: pick = s; break;
        case Bytes::EdgeLeft: pick = i > s ? i : s; break;
        case Bytes::EdgeRight: pick = i < s ? i : s; break;
        case Bytes::Replicate16: pick = (s & 1u) * 2 + (i & 1u); break;
      }
      picks |= pick << (4 * i);
    }
    return Permute::of(a, b, picks);
  }
};
// A field of `length` ones that starts at `position`; wrap takes both modulo 32.
template <bool Wrap>
struct FieldMask {
  static uint32_t of(uint32_t position, uint32_t length) {
    if (Wrap) position &= 31u, length &= 31u;
    if (position >= 32u) return 0;
    const uint64_t ones = length >= 32u ? 0xffffffffull : (1ull << length) - 1;
    return uint32_t(ones << position);
  }
};
// Extends from bit `n - 1` on; `n` of 0 gives 0, `n` of 32 and more the value itself.
template <bool Signed, bool Wrap>
struct Extend {
  static uint32_t of(uint32_t a, uint32_t n) {
    if (Wrap) n &= 31u;
    if (n == 0) return 0;
    if (n >= 32u) return a;
    const uint32_t kept = a & ((1u << n) - 1);
    return Signed && (a >> (n - 1) & 1u) ? kept | ~((1u << n) - 1) : kept;
  }
};
// The position of the n-th set bit from `base` on; upwards for a positive n, downwards for a negative one.
struct FindNth {
  static uint32_t of(uint32_t mask, uint32_t base, uint32_t offset) {
    const int n = int(offset);
    if (n == 0) return base < 32u && (mask >> base & 1u) ? base : ~0u;
    int left = n < 0 ? -n : n;
    for (int64_t at = base & 31u; at >= 0 && at < 32; at += n < 0 ? -1 : 1)
      if (mask >> at & 1u && --left == 0) return uint32_t(at);
    return ~0u;
  }
};
template <int Shift, class T>
struct Unpack {
  template <class From>
  static T of(From a) { return T(a >> Shift); }
};
template <int Shift, class T>
struct Pack {
  template <class A>
  static T of(A low, A high) { return T(T(low) | T(high) << Shift); }
};
template <uint64_t Window>
struct InWindow {
  static std::uint8_t of(uint64_t address) { return (address >> 60) == Window; }
};

template <class F>
void add_logic(Registry& table, const std::string& type) {
  table.binary<And, F, F, F>("and." + type);
  table.binary<Or, F, F, F>("or." + type);
  table.binary<Xor, F, F, F>("xor." + type);
  table.unary<Not, F, F>("not." + type);
  table.unary<LogicalNot, F, F>("cnot." + type);
}

template <class F>
void add_fields(Registry& table, const std::string& type) {
  table.unary<FindLeading<false>, U32, F>("bfind." + type);
  table.unary<FindLeading<true>, U32, F>("bfind.shiftamt." + type);
  table.ternary<ExtractField, F, F, U32, U32>("bfe." + type);
}

// Predicates are whole masks, so that their logic is one word operation.
template <class Fn>
struct PredicatePair : Signature<Pred, Pred, Pred> {
  static void run(void* result, const void* const* sources) {
    *static_cast<Mask*>(result) =
        Fn::of(*static_cast<const Mask*>(sources[0]), *static_cast<const Mask*>(sources[1]));
  }
};
template <class Fn>
struct PredicateOne : Signature<Pred, Pred> {
  static void run(void* result, const void* const* sources) {
    *static_cast<Mask*>(result) = Fn::of(*static_cast<const Mask*>(sources[0]));
  }
};

void add_predicate_logic(Registry& table) {
  table.add<PredicatePair<And>>("and.pred");
  table.add<PredicatePair<AndNot>>("andnot.pred");
  table.add<PredicatePair<Or>>("or.pred");
  table.add<PredicatePair<OrNot>>("ornot.pred");
  table.add<PredicatePair<Xor>>("xor.pred");
  table.add<PredicateOne<Not>>("not.pred");
  table.add<PredicateOne<Move>>("move.pred");
}

void add_moves(Registry& table) {
  table.unary<Move, U32, U32>("move.32");
  table.unary<Move, U64, U64>("move.64");
  table.ternary<Select, U32, U32, U32, Pred>("select.32");
  table.ternary<Select, U64, U64, U64, Pred>("select.64");
  table.unary<Move, U32, U64>("narrow.64");
  table.unary<Move, U64, U32>("zero_extend.64");
  table.unary<Move, S64, S32>("sign_extend.64");
  table.unary<Unpack<0, std::uint8_t>, U8, U32>("unpack.8.0");
  table.unary<Unpack<8, std::uint8_t>, U8, U32>("unpack.8.1");
  table.unary<Unpack<16, std::uint8_t>, U8, U32>("unpack.8.2");
  table.unary<Unpack<24, std::uint8_t>, U8, U32>("unpack.8.3");
  table.unary<Unpack<0, std::uint16_t>, U16, U32>("unpack.16.0");
  table.unary<Unpack<16, std::uint16_t>, U16, U32>("unpack.16.1");
  table.unary<Unpack<0, uint32_t>, U32, U64>("unpack.32.0");
  table.unary<Unpack<32, uint32_t>, U32, U64>("unpack.32.1");
  table.unary<Unpack<0, std::uint16_t>, U16, U64>("unpack64.16.0");
  table.unary<Unpack<16, std::uint16_t>, U16, U64>("unpack64.16.1");
  table.unary<Unpack<32, std::uint16_t>, U16, U64>("unpack64.16.2");
  table.unary<Unpack<48, std::uint16_t>, U16, U64>("unpack64.16.3");
  table.binary<Pack<8, std::uint16_t>, U16, U8, U8>("pack.8");
  table.binary<Pack<16, uint32_t>, U32, U16, U16>("pack.16");
  table.binary<Pack<32, uint64_t>, U64, U32, U32>("pack.32");
  table.unary<InWindow<0>, Pred, U64>("isspacep.global");
  table.unary<InWindow<1>, Pred, U64>("isspacep.shared");
  table.unary<InWindow<1>, Pred, U64>("isspacep.shared::cta");
  table.unary<InWindow<2>, Pred, U64>("isspacep.local");
}

}  // namespace

void add_bit_operations(Registry& table) {
  add_logic<U16>(table, "b16");
  add_logic<U32>(table, "b32");
  add_logic<U64>(table, "b64");
  add_predicate_logic(table);
  add_moves(table);
  table.binary<Shl, U16, U16, U32>("shl.b16");
  table.binary<Shl, U32, U32, U32>("shl.b32");
  table.binary<Shl, U64, U64, U32>("shl.b64");
  for (const char* kind : {"b", "u"}) {
    table.binary<Shr, U16, U16, U32>(std::string("shr.") + kind + "16");
    table.binary<Shr, U32, U32, U32>(std::string("shr.") + kind + "32");
    table.binary<Shr, U64, U64, U32>(std::string("shr.") + kind + "64");
  }
  table.binary<Shr, S16, S16, U32>("shr.s16");
  table.binary<Shr, S32, S32, U32>("shr.s32");
  table.binary<Shr, S64, S64, U32>("shr.s64");
  table.ternary<Funnel<true, true>, U32, U32, U32, U32>("shf.l.wrap.b32");
  table.ternary<Funnel<true, false>, U32, U32, U32, U32>("shf.l.clamp.b32");
  table.ternary<Funnel<false, true>, U32, U32, U32, U32>("shf.r.wrap.b32");
  table.ternary<Funnel<false, false>, U32, U32, U32, U32>("shf.r.clamp.b32");
  table.unary<PopCount, U32, U32>("popc.b32");
  table.unary<PopCount, U32, U64>("popc.b64");
  table.unary<LeadingZeros, U32, U32>("clz.b32");
  table.unary<LeadingZeros, U32, U64>("clz.b64");
  table.unary<Reverse, U32, U32>("brev.b32");
  table.unary<Reverse, U64, U64>("brev.b64");
  add_fields<U32>(table, "u32");
  add_fields<S32>(table, "s32");
  add_fields<U64>(table, "u64");
  add_fields<S64>(table, "s64");
  table.quaternary<InsertField, U32, U32, U32, U32, U32>("bfi.b32");
  table.quaternary<InsertField, U64, U64, U64, U32, U32>("bfi.b64");
  table.ternary<Permute, U32, U32, U32, U32>("prmt.b32");
  table.ternary<PermuteBy<Bytes::Forward4>, U32, U32, U32, U32>("prmt.b32.f4e");
  table.ternary<PermuteBy<Bytes::Backward4>, U32, U32, U32, U32>("prmt.b32.b4e");
  table.ternary<PermuteBy<Bytes::Replicate8>, U32, U32, U32, U32>("prmt.b32.rc8");
  table.ternary<PermuteBy<Bytes::EdgeLeft>, U32, U32, U32, U32>("prmt.b32.ecl");
  table.ternary<PermuteBy<Bytes::EdgeRight>, U32, U32, U32, U32>("prmt.b32.ecr");
  table.ternary<PermuteBy<Bytes::Replicate16>, U32, U32, U32, U32>("prmt.b32.rc16");
  table.binary<FieldMask<false>, U32, U32, U32>("bmsk.clamp.b32");
  table.binary<FieldMask<true>, U32, U32, U32>("bmsk.wrap.b32");
  table.binary<Extend<false, false>, U32, U32, U32>("szext.clamp.u32");
  table.binary<Extend<false, true>, U32, U32, U32>("szext.wrap.u32");
  table.binary<Extend<true, false>, U32, U32, U32>("szext.clamp.s32");
  table.binary<Extend<true, true>, U32, U32, U32>("szext.wrap.s32");
  table.ternary<FindNth, U32, U32, U32, U32>("fns.b32");
  table.quaternary<Lop3, U32, U32, U32, U32, U32>("lop3.b32");
}

}  // namespace astra
