// How the lanes of a register are read and written as values of a PTX type.
//
// A register holds 32 lanes: 4 bytes a lane for every type up to 32 bits, 8 bytes for 64-bit types;
// a predicate is one 32-bit mask. A Format turns such a register into an array of plain values, so
// that each operation is one scalar function applied in a loop that the compiler vectorises.
#pragma once

#include <cfloat>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <type_traits>

#if defined(__AVX512F__) || defined(__F16C__)
#include <immintrin.h>
#endif

namespace astra {

constexpr int kLanes = 32;
using Mask = std::uint32_t;

template <class To, class From>
inline To bit_cast(From from) {
  static_assert(sizeof(To) == sizeof(From));
  To to;
  std::memcpy(&to, &from, sizeof to);
  return to;
}

// ---- conversions of single values, all round to nearest even ------------------------------------

inline float half_to_float(std::uint16_t bits) {
  std::uint32_t sign = std::uint32_t(bits & 0x8000u) << 16, rest = bits & 0x7fffu;
  if (rest >= 0x7c00u) return bit_cast<float>(sign | 0x7f800000u | (rest & 0x3ffu) << 13);
  if (rest < 0x400u) {
    float magnitude = float(rest) * 0x1p-24f;  // zero or denormal: exact
    return bit_cast<float>(sign | bit_cast<std::uint32_t>(magnitude));
  }
  return bit_cast<float>(sign | ((rest << 13) + (112u << 23)));
}

inline std::uint16_t float_to_half(float value) {
  std::uint32_t bits = bit_cast<std::uint32_t>(value), sign = bits >> 16 & 0x8000u;
  bits &= 0x7fffffffu;
  if (bits > 0x7f800000u) return 0x7fff;  // PTX's NaN
  if (bits >= 0x477ff000u) return std::uint16_t(sign | 0x7c00u);
  if (bits < 0x38800000u) {  // below the smallest normal: adding 0.5 rounds at 2^-24
    float shifted = bit_cast<float>(bits) + 0.5f;
    return std::uint16_t(sign | (bit_cast<std::uint32_t>(shifted) - 0x3f000000u));
  }
  bits += 0xfffu + (bits >> 13 & 1u);
  return std::uint16_t(sign | (bits - (112u << 23)) >> 13);
}

inline float bfloat_to_float(std::uint16_t bits) {
  return bit_cast<float>(std::uint32_t(bits) << 16);
}

inline std::uint16_t float_to_bfloat(float value) {
  std::uint32_t bits = bit_cast<std::uint32_t>(value);
  std::uint32_t rounded = (bits + 0x7fffu + (bits >> 16 & 1u)) >> 16;
  return (bits & 0x7fffffffu) > 0x7f800000u ? 0x7fff : std::uint16_t(rounded);
}

// A double as the float whose last bit also says "inexact", so that one more rounding is exact
// (round to odd; Boldo and Melquiond, "Emulation of FMA and correctly rounded sums", 2008).
inline float round_to_odd(double value) {
  float nearest = float(value);
  std::int32_t bits = bit_cast<std::int32_t>(nearest);
  bool inexact = double(nearest) != value && value == value;
  std::int32_t toward = std::fabs(double(nearest)) > std::fabs(value) ? -1 : 1;
  return bit_cast<float>(bits + (inexact && !(bits & 1) ? toward : 0));
}

inline float flush(float value) {
  return std::fabs(value) < FLT_MIN ? std::copysign(0.0f, value) : value;
}

// ---- formats ---------------------------------------------------------------------------------

// Integers and raw bits. Narrow ones are kept extended to 32 bits by their own sign.
template <class T>
struct Int {
  using Value = T;
  using Slot = std::conditional_t<sizeof(T) == 8, std::uint64_t, std::uint32_t>;
  static constexpr int kCount = kLanes;
  static void load(const void* from, Value* to) {
    const Slot* slot = static_cast<const Slot*>(from);
    for (int i = 0; i < kLanes; ++i) to[i] = Value(slot[i]);
  }
  static void store(const Value* from, void* to) {
    using Wide = std::conditional_t<std::is_signed_v<T>, std::int64_t, std::uint64_t>;
    Slot* slot = static_cast<Slot*>(to);
    for (int i = 0; i < kLanes; ++i) slot[i] = Slot(Wide(from[i]));
  }
};

template <bool Flush>
struct Float32 {
  using Value = float;
  static constexpr int kCount = kLanes;
  static void load(const void* from, Value* to) {
    std::memcpy(to, from, sizeof(float) * kLanes);
    if (Flush)
      for (int i = 0; i < kLanes; ++i) to[i] = flush(to[i]);
  }
  static void store(const Value* from, void* to) {
    float* slot = static_cast<float*>(to);
    for (int i = 0; i < kLanes; ++i) slot[i] = Flush ? flush(from[i]) : from[i];
  }
};

struct Float64 {
  using Value = double;
  static constexpr int kCount = kLanes;
  static void load(const void* from, Value* to) { std::memcpy(to, from, 8 * kLanes); }
  static void store(const Value* from, void* to) { std::memcpy(to, from, 8 * kLanes); }
};

// A predicate as 0 or 1 a lane.
struct Pred {
  using Value = std::uint8_t;
  static constexpr int kCount = kLanes;
  static void load(const void* from, Value* to) {
    Mask mask = *static_cast<const Mask*>(from);
    for (int i = 0; i < kLanes; ++i) to[i] = mask >> i & 1u;
  }
  static void store(const Value* from, void* to) {
    Mask mask = 0;
#if defined(__AVX2__)
    __m256i ones = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from));
    mask = Mask(_mm256_movemask_epi8(_mm256_sub_epi8(_mm256_setzero_si256(), ones)));
#else
    for (int i = 0; i < kLanes; ++i) mask |= Mask(from[i] & 1u) << i;
#endif
    *static_cast<Mask*>(to) = mask;
  }
};

// The two encodings of 16-bit floats.
struct Half {
  static void widen(const std::uint16_t* from, float* to, int count) {
    int i = 0;
#if defined(__AVX512F__)
    for (; i + 16 <= count; i += 16)
      _mm512_storeu_ps(to + i, _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i*)(from + i))));
#endif
    for (; i < count; ++i) to[i] = half_to_float(from[i]);
  }
  static void narrow(const float* from, std::uint16_t* to, int count) {
    int i = 0;
#if defined(__AVX512BW__) && defined(__AVX512VL__)
    for (; i + 16 <= count; i += 16) {
      __m512 value = _mm512_loadu_ps(from + i);
      __m256i bits = _mm512_cvtps_ph(value, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
      __mmask16 nan = _mm512_cmp_ps_mask(value, value, _CMP_UNORD_Q);
      bits = _mm256_mask_mov_epi16(bits, nan, _mm256_set1_epi16(0x7fff));
      _mm256_storeu_si256((__m256i*)(to + i), bits);
    }
#endif
    for (; i < count; ++i) to[i] = float_to_half(from[i]);
  }
};

struct Bfloat {
  static void widen(const std::uint16_t* from, float* to, int count) {
    for (int i = 0; i < count; ++i) to[i] = bfloat_to_float(from[i]);
  }
  static void narrow(const float* from, std::uint16_t* to, int count) {
    for (int i = 0; i < count; ++i) to[i] = float_to_bfloat(from[i]);
  }
};

// One 16-bit float a lane, computed with as float.
template <class Encoding>
struct Narrow {
  using Value = float;
  static constexpr int kCount = kLanes;
  static void load(const void* from, Value* to) {
    const std::uint32_t* slot = static_cast<const std::uint32_t*>(from);
    alignas(64) std::uint16_t bits[kLanes];
    for (int i = 0; i < kLanes; ++i) bits[i] = std::uint16_t(slot[i]);
    Encoding::widen(bits, to, kLanes);
  }
  static void store(const Value* from, void* to) {
    std::uint32_t* slot = static_cast<std::uint32_t*>(to);
    alignas(64) std::uint16_t bits[kLanes];
    Encoding::narrow(from, bits, kLanes);
    for (int i = 0; i < kLanes; ++i) slot[i] = bits[i];
  }
};

// Two 16-bit floats a lane; the lower half is the even value.
template <class Encoding>
struct Packed {
  using Value = float;
  static constexpr int kCount = 2 * kLanes;
  static void load(const void* from, Value* to) {
    Encoding::widen(static_cast<const std::uint16_t*>(from), to, kCount);
  }
  static void store(const Value* from, void* to) {
    Encoding::narrow(from, static_cast<std::uint16_t*>(to), kCount);
  }
};

// ---- the formats by their PTX names ---------------------------------------------------------------

using S8 = Int<std::int8_t>;
using U8 = Int<std::uint8_t>;
using S16 = Int<std::int16_t>;
using U16 = Int<std::uint16_t>;
using S32 = Int<std::int32_t>;
using U32 = Int<std::uint32_t>;
using S64 = Int<std::int64_t>;
using U64 = Int<std::uint64_t>;
using F32 = Float32<false>;
using F32Ftz = Float32<true>;
using F64 = Float64;
using F16 = Narrow<Half>;
using BF16 = Narrow<Bfloat>;
using F16x2 = Packed<Half>;
using BF16x2 = Packed<Bfloat>;

}  // namespace astra
