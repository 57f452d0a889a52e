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

// Distinct 32-byte sectors touched. The unit is that of Nsight Compute's l1tex__t_sectors.
int count_sectors(const Addresses& addresses, Mask mask, int bytes);

// Distinct 128-byte lines touched: so many requests go on to L2.
int count_lines(const Addresses& addresses, Mask mask, int bytes);

// Passes that the 32 banks of 4 bytes need: an access of 8 bytes a lane is served by half warps,
// one of 16 bytes by quarter warps; lanes that read the same word share it.
int count_wavefronts(const Addresses& addresses, Mask mask, int bytes);

}  // namespace astra
