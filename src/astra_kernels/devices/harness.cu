// Kernels of the timing harness: filling buffer sets, and the neighbours of a call in a chain.
// harness.ptx and chain.ptx beside this file are made from it by scripts/harness.

#include <cstdint>

namespace {

// splitmix64 (Steele, Lea, Flood 2014): a word of good bits from a counter. jobs/perturb.py has it in NumPy.
__device__ __forceinline__ uint64_t mixed(uint64_t x) {
  x += 0x9e3779b97f4a7c15ull;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
  return x ^ (x >> 31);
}

// One set: the master image, with the bits in `flips` turned over or not by chance.
__device__ __forceinline__ void fill(uint64_t* set, const uint64_t* master, const uint64_t* flips,
                                     uint64_t words, uint64_t key) {
  const uint64_t stride = static_cast<uint64_t>(gridDim.x) * blockDim.x;
  for (uint64_t w = static_cast<uint64_t>(blockIdx.x) * blockDim.x + threadIdx.x; w < words;
       w += stride) {
    set[w] = master[w] ^ (flips[w] & mixed(key + w));
  }
}

}  // namespace

#ifndef ASTRA_CHAIN

// blockIdx.y is the set; its key is `*key` plus the number of its first word.
extern "C" __global__ void restore_sets(uint64_t* slab, const uint64_t* master,
                                        const uint64_t* flips, uint64_t words,
                                        const uint64_t* key) {
  const uint64_t first = blockIdx.y * words;
  fill(slab + first, master, flips, words, *key + first);
}

// Fills the shared memory of a multiprocessor with bytes that are a NaN in every floating type: what a kernel
// reads before it wrote it is no number. `bytes` is as much as a block can have, so that blocks do not share one.
extern "C" __global__ void spoil_shared(uint32_t bytes) {
  extern __shared__ uint32_t words[];
  for (uint32_t i = threadIdx.x; i < bytes / 4; i += blockDim.x) {
    words[i] = 0xffffffffu;
  }
  __syncthreads();
  if (words[(threadIdx.x * 37) % (bytes / 4)] == 0) {
    __trap();  // never; keeps the writes
  }
}

#else

// The kernel before a call in a chain: lets the next kernel start at once, and writes the inputs late.
extern "C" __global__ void produce(uint64_t* set, const uint64_t* master, const uint64_t* flips,
                                   uint64_t words, const uint64_t* key, uint64_t first,
                                   uint64_t delay_ns) {
  asm volatile("griddepcontrol.launch_dependents;");
  uint64_t begin;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(begin));
  for (uint64_t now = begin; now - begin < delay_ns;) {
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
  }
  fill(set, master, flips, words, *key + first);
}

// The kernel after a call in a chain: waits for it, then reads everything.
extern "C" __global__ void consume(const uint64_t* set, uint64_t words, uint64_t* sink) {
  asm volatile("griddepcontrol.wait;" ::: "memory");
  const uint64_t stride = static_cast<uint64_t>(gridDim.x) * blockDim.x;
  uint64_t found = 0;
  for (uint64_t w = static_cast<uint64_t>(blockIdx.x) * blockDim.x + threadIdx.x; w < words;
       w += stride) {
    found ^= set[w];
  }
  if (found == 1) *sink = found;  // almost never; keeps the reads
}

#endif
