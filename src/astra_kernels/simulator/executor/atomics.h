// Atomic read-modify-write operations on memory, by their PTX name ("add.f32").
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace astra {

// Performs the operation at `at` and returns the old value, both as the low bits of 64.
using AtomicOperation = std::uint64_t (*)(void* at, std::uint64_t b, std::uint64_t c);

struct NamedAtomic {
  std::string name;
  AtomicOperation run;
  int bytes;
  bool order_matters;  // floating-point sums depend on the order of threads

  // Whether ptxas first combines what lanes that are known to share an address do (REDUX, or a count of them).
  bool combines() const;
};

const std::vector<NamedAtomic>& atomics();

}  // namespace astra
