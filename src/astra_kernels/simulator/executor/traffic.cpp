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

Touched count_touched(const Addresses& addresses, Mask mask, int bytes) {
  std::uint64_t seen[2 * kLanes];
  int count = 0;
  std::uint64_t previous = ~0ull;
  bool ordered = true;
  for (Mask rest = mask; rest; rest &= rest - 1) {
    std::uint64_t address = addresses.of[__builtin_ctz(rest)];
    std::uint64_t first = address >> 5, last = (address + std::uint64_t(bytes) - 1) >> 5;
    for (std::uint64_t sector = first; sector <= last; ++sector) {
      if (sector == previous) continue;
      ordered = ordered && (count == 0 || sector > previous);
      seen[count++] = previous = sector;
    }
  }
  if (!ordered) {
    std::sort(seen, seen + count);
    count = int(std::unique(seen, seen + count) - seen);
  }
  int lines = count > 0;
  for (int i = 1; i < count; ++i) lines += seen[i] >> 2 != seen[i - 1] >> 2;
  return {count, lines};
}

namespace {

// Whether all active lanes of a group share their address with the one `apart` beside them, if that is active.
bool lanes_share(const Addresses& addresses, Mask mask, int start, int lanes, int apart) {
  for (int lane = start; lane < start + lanes; ++lane) {
    const bool both = mask >> lane & mask >> (lane ^ apart) & 1u;
    if (both && addresses.of[lane] != addresses.of[lane ^ apart]) return false;
  }
  return true;
}

// The most distinct words that the active lanes of a group want of one bank.
int deepest_bank(const Addresses& addresses, Mask mask, int start, int lanes, int words) {
  std::uint32_t seen[kLanes][kLanes];
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
  return deepest;
}

}  // namespace

int count_row_wavefronts(const Addresses& addresses, Mask mask) {
  int total = 0;
  for (int start = 0; start < kLanes; start += kMatrixRows)
    total += deepest_bank(addresses, mask, start, kMatrixRows, kMatrixRowWords);
  return total;
}

int count_wavefronts(const Addresses& addresses, Mask mask, int bytes) {
  const int words = bytes > 4 ? bytes / 4 : 1, apart = kLanes / words;
  int total = 0;
  for (int start = 0, lanes; start < kLanes; start += lanes) {
    lanes = apart;
    if (words > 1 && start % (2 * apart) == 0) {
      const bool together = lanes_share(addresses, mask, start, 2 * apart, 1) ||
                            lanes_share(addresses, mask, start, 2 * apart, 2);
      if (together) lanes = 2 * apart;
    }
    total += deepest_bank(addresses, mask, start, lanes, words);
  }
  return total;
}

}  // namespace astra
