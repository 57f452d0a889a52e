// Applying a scalar function to all 32 lanes of its operands.
#pragma once

#include <vector>

#include "formats.h"

namespace astra {

// An operation writes all 32 lanes of `result`; the interpreter keeps inactive lanes as they were.
using Operation = void (*)(void* result, const void* const* sources);

// What a register holds, and so how its inactive lanes are kept.
enum class RegisterKind : std::uint8_t { None, Pred, Lanes32, Lanes64 };

template <class Format>
constexpr RegisterKind kind_of() {
  if constexpr (std::is_same_v<Format, Pred>) return RegisterKind::Pred;
  if constexpr (sizeof(typename Format::Value) == 8) return RegisterKind::Lanes64;
  return RegisterKind::Lanes32;
}

template <class Out, class... In>
struct Signature {
  static constexpr RegisterKind result = kind_of<Out>();
  static std::vector<RegisterKind> sources() { return {kind_of<In>()...}; }
};

template <class Format>
struct Values {
  alignas(64) typename Format::Value v[Format::kCount];
  Values() = default;
  explicit Values(const void* from) { Format::load(from, v); }
};

template <class Fn, class Out, class A>
struct Map1 : Signature<Out, A> {
  static void run(void* result, const void* const* sources) {
    Values<A> a(sources[0]);
    Values<Out> r;
    for (int i = 0; i < Out::kCount; ++i) r.v[i] = typename Out::Value(Fn::of(a.v[i]));
    Out::store(r.v, result);
  }
};

template <class Fn, class Out, class A, class B>
struct Map2 : Signature<Out, A, B> {
  static void run(void* result, const void* const* sources) {
    Values<A> a(sources[0]);
    Values<B> b(sources[1]);
    Values<Out> r;
    for (int i = 0; i < Out::kCount; ++i) r.v[i] = typename Out::Value(Fn::of(a.v[i], b.v[i]));
    Out::store(r.v, result);
  }
};

template <class Fn, class Out, class A, class B, class C>
struct Map3 : Signature<Out, A, B, C> {
  static void run(void* result, const void* const* sources) {
    Values<A> a(sources[0]);
    Values<B> b(sources[1]);
    Values<C> c(sources[2]);
    Values<Out> r;
    for (int i = 0; i < Out::kCount; ++i)
      r.v[i] = typename Out::Value(Fn::of(a.v[i], b.v[i], c.v[i]));
    Out::store(r.v, result);
  }
};

template <class Fn, class Out, class A, class B, class C, class D>
struct Map4 : Signature<Out, A, B, C, D> {
  static void run(void* result, const void* const* sources) {
    Values<A> a(sources[0]);
    Values<B> b(sources[1]);
    Values<C> c(sources[2]);
    Values<D> d(sources[3]);
    Values<Out> r;
    for (int i = 0; i < Out::kCount; ++i)
      r.v[i] = typename Out::Value(Fn::of(a.v[i], b.v[i], c.v[i], d.v[i]));
    Out::store(r.v, result);
  }
};

}  // namespace astra
