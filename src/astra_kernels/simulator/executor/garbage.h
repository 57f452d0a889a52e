// What memory holds that nobody has written: random bytes, the same for the same seed.
#pragma once

#include <cstdint>
#include <cstring>

namespace astra {

// SplitMix64 (Steele, Lea, Flood 2014).
inline void fill_with_garbage(std::uint8_t* at, std::uint64_t bytes, std::uint64_t seed) {
  std::uint64_t state = seed * 0xd1342543de82ef95ull;
  for (std::uint64_t i = 0; i < bytes; i += 8) {
    state += 0x9e3779b97f4a7c15ull;
    std::uint64_t z = state;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ z >> 27) * 0x94d049bb133111ebull;
    z ^= z >> 31;
    std::memcpy(at + i, &z, bytes - i < 8 ? bytes - i : 8);
  }
}

}  // namespace astra
