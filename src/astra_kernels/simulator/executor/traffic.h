// What a warp's memory access costs: sectors of global memory, wavefronts of shared memory.
#pragma once

#include <cstdint>

#include "formats.h"

namespace astra {

// The addresses of one access; those of inactive lanes mean nothing.
struct Addresses {
  alignas(64) std::uint64_t of[kLanes];
};

// Whether all 32 lanes are active and access `bytes` each, side by side in lane order.
bool is_contiguous(const Addresses& addresses, Mask mask, int bytes);

// Distinct 32-byte sectors (the unit of Nsight Compute's l1tex__t_sectors), and 128-byte lines: so many requests go
// on to L2.
struct Touched {
  int sectors, lines;
};
Touched count_touched(const Addresses& addresses, Mask mask, int bytes);

// Passes that the 32 banks of 4 bytes need: an access of 8 bytes a lane is served by half warps,
// one of 16 bytes by quarter warps, two of them at once where neighbours (by one or by two lanes) share
// addresses; lanes that read the same word share it.
int count_wavefronts(const Addresses& addresses, Mask mask, int bytes);

// The same for ldmatrix and stmatrix, whose lanes give rows of 16 bytes: the eight rows of a matrix at once, the
// matrices one after another.
constexpr int kMatrixRows = 8, kMatrixRowWords = 4;
int count_row_wavefronts(const Addresses& addresses, Mask mask);

}  // namespace astra
