// 8-bit floating point: e4m3 and e5m2.
#pragma once

#include "formats.h"

namespace astra {

// An 8-bit float with `Mantissa` bits; values beyond the largest finite one saturate (.satfinite).
template <int Mantissa, int Bias, std::uint32_t Largest>
struct Float8 {
  static std::uint32_t encode(float value) {
    std::uint32_t sign = bit_cast<std::uint32_t>(value) >> 24 & 0x80u;
    float magnitude = std::fabs(value);
    if (value != value) return 0x7fu;
    const float smallest_normal = bit_cast<float>(std::uint32_t(128 - Bias) << 23);
    const float unit = bit_cast<float>(std::uint32_t(126 + Bias + Mantissa) << 23);
    std::uint32_t code;
    if (magnitude < smallest_normal) {
      code = std::uint32_t(std::nearbyint(magnitude * unit));
    } else {
      constexpr int cut = 23 - Mantissa;
      std::uint32_t bits = bit_cast<std::uint32_t>(magnitude);
      bits += (1u << (cut - 1)) - 1 + (bits >> cut & 1u);
      code = (bits >> cut) - (std::uint32_t(127 - Bias) << Mantissa);
    }
    return sign | (code > Largest ? Largest : code);
  }
  static float decode(std::uint32_t code) {
    std::uint32_t rest = code & 0x7fu;
    if (Mantissa == 3 && rest == 0x7fu) return NAN;
    // Aligned with a half's mantissa, the value is off by the difference of the biases.
    float scaled = half_to_float(std::uint16_t(rest << (10 - Mantissa)));
    return std::copysign(scaled * float(1 << (15 - Bias)), code & 0x80u ? -1.0f : 1.0f);
  }
};
using E4M3 = Float8<3, 7, 0x7e>;
using E5M2 = Float8<2, 15, 0x7b>;

}  // namespace astra
