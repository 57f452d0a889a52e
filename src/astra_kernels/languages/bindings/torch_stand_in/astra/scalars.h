// Stand-in for a part of PyTorch's C++ API: element types. Written from the public API's documentation.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>
#include <cuda_runtime.h>

#include <cstdint>
#include <limits>
#include <ostream>

#define C10_HOST_DEVICE __host__ __device__
#define C10_DEVICE __device__
#define C10_HOST __host__

namespace c10 {

enum class ScalarType : int8_t {
  Byte = 0, Char = 1, Short = 2, Int = 3, Long = 4, Half = 5, Float = 6, Double = 7, Bool = 11, BFloat16 = 15,
  Float8_e5m2 = 23, Float8_e4m3fn = 24, Undefined = 45
};

// A 16-bit or 8-bit float that computes in float and rounds after every operation.
#define ASTRA_NARROW_FLOAT(Name, Bits, Native, FromFloat, ToFloat)                                          \
  struct Name {                                                                                            \
    Bits x;                                                                                                \
    struct from_bits_t {};                                                                                 \
    Name() = default;                                                                                      \
    static constexpr C10_HOST_DEVICE from_bits_t from_bits() { return {}; }                                \
    constexpr C10_HOST_DEVICE Name(Bits bits, from_bits_t) : x(bits) {}                                    \
    C10_HOST_DEVICE Name(float value) { store(FromFloat(value)); }                                         \
    C10_HOST_DEVICE Name(const Native& value) { store(value); }                                            \
    C10_HOST_DEVICE operator float() const { return ToFloat(native()); }                                   \
    C10_HOST_DEVICE operator Native() const { return native(); }                                           \
    C10_HOST_DEVICE Native native() const {                                                                \
      Native value;                                                                                        \
      *reinterpret_cast<Bits*>(&value) = x;                                                                \
      return value;                                                                                        \
    }                                                                                                      \
                                                                                                           \
   private:                                                                                                \
    C10_HOST_DEVICE void store(const Native& value) { x = *reinterpret_cast<const Bits*>(&value); }        \
  };                                                                                                       \
  inline C10_HOST_DEVICE Name operator-(const Name& a) { return Name(-static_cast<float>(a)); }            \
  ASTRA_NARROW_OPERATION(Name, +)                                                                          \
  ASTRA_NARROW_OPERATION(Name, -)                                                                          \
  ASTRA_NARROW_OPERATION(Name, *)                                                                          \
  ASTRA_NARROW_OPERATION(Name, /)

#define ASTRA_NARROW_OPERATION(Name, op)                                                                   \
  inline C10_HOST_DEVICE Name operator op(const Name& a, const Name& b) {                                  \
    return Name(static_cast<float>(a) op static_cast<float>(b));                                           \
  }                                                                                                        \
  inline C10_HOST_DEVICE Name& operator op##=(Name& a, const Name& b) { return a = a op b; }               \
  inline C10_HOST_DEVICE float operator op(const Name& a, float b) { return static_cast<float>(a) op b; }  \
  inline C10_HOST_DEVICE float operator op(float a, const Name& b) { return a op static_cast<float>(b); }  \
  inline C10_HOST_DEVICE float& operator op##=(float& a, const Name& b) { return a = a op static_cast<float>(b); } \
  ASTRA_NARROW_MIXED(double, double, Name, op, static_cast<float>(a), static_cast<float>(b))               \
  ASTRA_NARROW_MIXED(int, Name, Name, op, a, b)                                                            \
  ASTRA_NARROW_MIXED(int64_t, Name, Name, op, a, b)

// With a double the result is one; an integer is rounded to the narrow type first.
#define ASTRA_NARROW_MIXED(Other, Result, Name, op, from_a, from_b)                                        \
  inline C10_HOST_DEVICE Result operator op(const Name& a, Other b) { return from_a op static_cast<Result>(b); } \
  inline C10_HOST_DEVICE Result operator op(Other a, const Name& b) { return static_cast<Result>(a) op from_b; }

ASTRA_NARROW_FLOAT(Half, uint16_t, __half, __float2half_rn, __half2float)
ASTRA_NARROW_FLOAT(BFloat16, uint16_t, __nv_bfloat16, __float2bfloat16_rn, __bfloat162float)
ASTRA_NARROW_FLOAT(Float8_e4m3fn, uint8_t, __nv_fp8_e4m3, __nv_fp8_e4m3, static_cast<float>)
ASTRA_NARROW_FLOAT(Float8_e5m2, uint8_t, __nv_fp8_e5m2, __nv_fp8_e5m2, static_cast<float>)

#ifdef __CUDACC__
inline __device__ Half __ldg(const Half* from) {
  return Half(::__ldg(reinterpret_cast<const uint16_t*>(from)), Half::from_bits());
}
inline __device__ BFloat16 __ldg(const BFloat16* from) {
  return BFloat16(::__ldg(reinterpret_cast<const uint16_t*>(from)), BFloat16::from_bits());
}
#endif

#undef ASTRA_NARROW_FLOAT
#undef ASTRA_NARROW_OPERATION
#undef ASTRA_NARROW_MIXED

// Every element type: C++ type, name of the enumerator.
#define ASTRA_FOR_ALL_TYPES(_)                                                                             \
  _(uint8_t, Byte) _(int8_t, Char) _(int16_t, Short) _(int, Int) _(int64_t, Long) _(float, Float)          \
  _(double, Double) _(bool, Bool) _(c10::Half, Half) _(c10::BFloat16, BFloat16)                            \
  _(c10::Float8_e4m3fn, Float8_e4m3fn) _(c10::Float8_e5m2, Float8_e5m2)

template <typename T>
struct CppTypeToScalarType;
template <ScalarType type>
struct ScalarTypeToCPPType;
template <ScalarType type>
using ScalarTypeToCPPTypeT = typename ScalarTypeToCPPType<type>::type;

#define ASTRA_TYPE(T, Name)                                                                                \
  template <>                                                                                              \
  struct CppTypeToScalarType<T> {                                                                          \
    static constexpr ScalarType value = ScalarType::Name;                                                  \
  };                                                                                                       \
  template <>                                                                                              \
  struct ScalarTypeToCPPType<ScalarType::Name> {                                                           \
    using type = T;                                                                                        \
  };
ASTRA_FOR_ALL_TYPES(ASTRA_TYPE)
#undef ASTRA_TYPE

inline const char* toString(ScalarType type) {
  switch (type) {
#define ASTRA_CASE(T, Name) \
  case ScalarType::Name: return #Name;
    ASTRA_FOR_ALL_TYPES(ASTRA_CASE)
#undef ASTRA_CASE
    default: return "Undefined";
  }
}

inline int64_t elementSize(ScalarType type) {
  switch (type) {
#define ASTRA_CASE(T, Name) \
  case ScalarType::Name: return sizeof(T);
    ASTRA_FOR_ALL_TYPES(ASTRA_CASE)
#undef ASTRA_CASE
    default: return 0;
  }
}

inline bool isFloatingType(ScalarType type) {
  return type == ScalarType::Double || type == ScalarType::Float || type == ScalarType::Half ||
         type == ScalarType::BFloat16 || type == ScalarType::Float8_e4m3fn || type == ScalarType::Float8_e5m2;
}

inline std::ostream& operator<<(std::ostream& out, ScalarType type) { return out << toString(type); }

#define ASTRA_CONSTANT(T, Name) constexpr ScalarType k##Name = ScalarType::Name;
ASTRA_FOR_ALL_TYPES(ASTRA_CONSTANT)
#undef ASTRA_CONSTANT
constexpr ScalarType kUInt8 = kByte, kInt8 = kChar, kInt16 = kShort, kInt32 = kInt, kInt64 = kLong;
constexpr ScalarType kFloat16 = kHalf, kFloat32 = kFloat, kFloat64 = kDouble;

}  // namespace c10

// Bits by IEEE 754 and by the OCP formats of 8 bits, of which e4m3 has no infinity.
#define ASTRA_INFINITY(Name, bits) \
  static constexpr C10_HOST_DEVICE c10::Name infinity() { return c10::Name(bits, c10::Name::from_bits()); }
#define ASTRA_LIMITS(Name, digits_, smallest, largest, negative, step, infinite, nan)                      \
  template <>                                                                                              \
  class std::numeric_limits<c10::Name> {                                                                   \
   public:                                                                                                 \
    static constexpr bool is_specialized = true, is_signed = true, is_integer = false, has_quiet_NaN = true; \
    static constexpr int digits = digits_, radix = 2;                                                      \
    static constexpr C10_HOST_DEVICE c10::Name min() { return at(smallest); }                              \
    static constexpr C10_HOST_DEVICE c10::Name max() { return at(largest); }                               \
    static constexpr C10_HOST_DEVICE c10::Name lowest() { return at(negative); }                           \
    static constexpr C10_HOST_DEVICE c10::Name epsilon() { return at(step); }                              \
    infinite                                                                                               \
    static constexpr C10_HOST_DEVICE c10::Name quiet_NaN() { return at(nan); }                             \
                                                                                                           \
   private:                                                                                                \
    static constexpr C10_HOST_DEVICE c10::Name at(int bits) {                                              \
      return c10::Name(bits, c10::Name::from_bits());                                                      \
    }                                                                                                      \
  };
ASTRA_LIMITS(Half, 11, 0x0400, 0x7BFF, 0xFBFF, 0x1400, ASTRA_INFINITY(Half, 0x7C00), 0x7E00)
ASTRA_LIMITS(BFloat16, 8, 0x0080, 0x7F7F, 0xFF7F, 0x3C00, ASTRA_INFINITY(BFloat16, 0x7F80), 0x7FC0)
ASTRA_LIMITS(Float8_e4m3fn, 4, 0x08, 0x7E, 0xFE, 0x20, , 0x7F)
ASTRA_LIMITS(Float8_e5m2, 3, 0x04, 0x7B, 0xFB, 0x34, ASTRA_INFINITY(Float8_e5m2, 0x7C), 0x7F)
#undef ASTRA_LIMITS
#undef ASTRA_INFINITY
