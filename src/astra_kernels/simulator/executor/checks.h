// What a checked launch keeps to find races and reads of what nobody wrote.
#pragma once

#include <random>
#include <vector>

#include "ordering.h"
#include "program.h"

namespace astra {

using Random = std::mt19937_64;

enum class Touch { Read, Write, Atomic, Copy };

// Of one launch. A block that runs alone leaves nothing here but what it published.
struct LaunchChecks {
  LaunchChecks();
  std::uint32_t number;  // of the launch in the process
  Published published;   // at addresses of global memory
  // The first read of what nobody had written. It is reported unless somebody writes there later, at the same time
  // as far as anybody knows: then both sides of the race are.
  Fault unwritten{};
  bool spent = false;    // memory for the shadow ran out, and some accesses were not looked at
};

// Of one block.
struct BlockChecks {
  BlockChecks(std::uint32_t block, const std::vector<Mask>& lanes, std::uint64_t shared_bytes,
              std::uint64_t local_bytes)
      : order(block, lanes), shared(shared_bytes), local_written(local_bytes) {}
  BlockOrder order;
  Shadow shared;
  Published published;  // at offsets of shared memory
  std::vector<std::uint8_t> local_written;
};

}  // namespace astra
