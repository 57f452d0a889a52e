// Rounding to a 16-bit float in a given direction.
#pragma once

#include "formats.h"

namespace astra {

enum class Direction { Zero, Down, Up };

// The 16-bit value next to `exact` in that direction, as a float. It starts from the nearest one.
template <class Encoding, Direction Toward>
inline float round_toward(double exact) {
  if (exact != exact) return float(exact);
  std::uint16_t bits;
  float nearest = round_to_odd(exact);
  Encoding::narrow(&nearest, &bits, 1);
  Encoding::widen(&bits, &nearest, 1);
  const bool up = Toward == Direction::Up || (Toward == Direction::Zero && exact < 0);
  if (up ? double(nearest) >= exact : double(nearest) <= exact) return nearest;
  // Codes grow with the magnitude; the smallest magnitude's neighbour beyond zero has the other sign.
  const bool larger = up == (nearest > 0);
  bits = nearest == 0 ? std::uint16_t(up ? 0x0001u : 0x8001u) : std::uint16_t(larger ? bits + 1 : bits - 1);
  Encoding::widen(&bits, &nearest, 1);
  return nearest;
}

}  // namespace astra
