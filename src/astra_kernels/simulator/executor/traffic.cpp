#include "traffic.h"

#include <algorithm>

namespace astra {

bool is_contiguous(const Addresses& addresses, Mask mask, int bytes) {
  if (mask != ~Mask(0)) return false;
  std::uint64_t different = 0, first = addresses.of[0];
  for (int i = 0; i < kLanes; ++i)
    different |= addresses.of[i] ^ (first + std::uint64_t(i) * std::uint64_t(bytes));
  return !different;
}

namespace {

// Distinct pieces of 2^kShift bytes.
template <int kShift>
int count_pieces(const Addresses& addresses, Mask mask, int bytes) {
  std::uint64_t seen[2 * kLanes];
  int count = 0;
  std::uint64_t previous = ~0ull;
  bool ordered = true;
  for (Mask rest = mask; rest; rest &= rest - 1) {
    std::uint64_t address = addresses.of[__builtin_ctz(rest)];
    std::uint64_t first = address >> kShift, last = (address + std::uint64_t(bytes) - 1) >> kShift;
    for (std::uint64_t piece = first; piece <= last; ++piece) {
      if (piece == previous) continue;
      ordered = ordered && (count == 0 || piece > previous);
      seen[count++] = previous = piece;
    }
  }
  if (ordered) return count;
  std::sort(seen, seen + count);
  return int(std::unique(seen, seen + count) - seen);
}

}  // namespace

int count_sectors(const Addresses& addresses, Mask mask, int bytes) {
  return count_pieces<5>(addresses, mask, bytes);
}

int count_lines(const Addresses& addresses, Mask mask, int bytes) {
  return count_pieces<7>(addresses, mask, bytes);
}

int count_wavefronts(const Addresses& addresses, Mask mask, int bytes) {
  const int words = bytes > 4 ? bytes / 4 : 1, lanes = kLanes / words;
  int total = 0;
  for (int start = 0; start < kLanes; start += lanes) {
    std::uint32_t seen[kLanes][kLanes];  // distinct words of each bank
    int depth[kLanes] = {};
    int deepest = 0;
    for (int lane = start; lane < start + lanes; ++lane) {
      if (!(mask >> lane & 1u)) continue;
      for (int k = 0; k < words; ++k) {
        std::uint32_t word = std::uint32_t(addresses.of[lane] >> 2) + std::uint32_t(k);
        std::uint32_t bank = word % kLanes;
        std::uint32_t* end = seen[bank] + depth[bank];
        if (std::find(seen[bank], end, word) != end) continue;
        *end = word;
        deepest = std::max(deepest, ++depth[bank]);
      }
    }
    total += deepest;
  }
  return total;
}

}  // namespace astra
