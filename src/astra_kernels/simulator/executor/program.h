// The decoded program and everything that passes between Python and the executor.
//
// The structures are plain data with fixed layouts; `encoding.py` mirrors them field by field.
#pragma once

#include <cstdint>

#include "formats.h"
#include "registry.h"

namespace astra {

// What the interpreter does with an instruction. The names are exported to Python, in this order.
#define ASTRA_HANDLERS(X)                                                                       \
  X(elementwise) X(branch) X(exit) X(load) X(store) X(atomic) X(copy_async) X(copy_commit)      \
  X(copy_wait) X(grid_wait) X(active_mask) X(clock) X(nop) X(trap) X(print) X(assert_fail)         \
  X(discard)                                                                                       \
  /* they may wait for another block, so a cooperative launch gives others a turn: */           \
  X(polling_load) X(polling_atomic)                                                             \
  /* from here on, threads meet: */                                                             \
  X(barrier) X(barrier_arrive) X(warp_barrier) X(shuffle) X(vote) X(match) X(reduce) X(elect)      \
  X(multiply_matrices) X(load_matrices) X(store_matrices) X(transpose_matrix)

enum class Handler : std::uint16_t {
#define X(name) name,
  ASTRA_HANDLERS(X)
#undef X
};
constexpr bool threads_meet(Handler handler) { return handler >= Handler::barrier; }
constexpr bool lanes_meet(Handler handler) { return handler >= Handler::warp_barrier; }

// `counted_bytes` of an access that another one counts for.
constexpr std::uint8_t kMerged = 255;

// The source that names the lanes of an instruction for which lanes meet.
constexpr int kMembers = 5;

// What `discard` forgets.
constexpr int kDiscardBytes = 128;

// Bits of `Instruction::order`.
constexpr std::uint8_t kStrong = 1, kVolatile = 2, kRelease = 4;
// `Instruction::mode` of a nop that is a fence.
constexpr std::uint8_t kFence = 1;

enum class Space : std::uint8_t { Global, Shared, Local, Generic, Constant };

// Generic addresses of shared and local memory start at these windows.
constexpr std::uint64_t kSharedWindow = 1ull << 60;
constexpr std::uint64_t kLocalWindow = 2ull << 60;

// An operand is a byte offset into the warp's registers, or, with this bit, into the constants.
constexpr std::int32_t kConstant = 1 << 30;
constexpr std::int32_t kNone = -1;

struct Instruction {
  Handler handler;
  std::uint16_t operation;  // index into the registry, or into the atomics; types of matrices
  RegisterKind result_kind;
  std::uint8_t guard_negated;
  std::uint8_t counted;  // 0 for the second and later parts of one PTX instruction
  Space space;
  std::int32_t guard;  // a predicate, or kNone
  std::int32_t results[4];
  std::int32_t sources[6];
  std::int32_t target;     // of a branch; where this instruction's list starts in `operand_lists`
  std::int64_t immediate;      // added to an address; masks; the table's length
  std::uint8_t element_bytes;  // of a memory access
  std::uint8_t elements;
  std::uint8_t sign_extend;
  std::uint8_t mode;         // shuffle, vote, match, reduction: which one
  std::uint8_t address_bytes;  // 4 or 8: width of the address operand
  std::uint8_t counted_bytes;  // of shared memory, with the neighbours merged into it (merge.py)
  std::uint8_t order;  // of a memory access: bits below; of a barrier: 1 when lanes of a warp may come apart
  std::uint8_t padding;
  std::int64_t copy_offset;  // added to the second address of an asynchronous copy
};
static_assert(sizeof(Instruction) == 80);

struct InstructionCounters {
  std::uint64_t warps;         // times issued
  std::uint64_t threads;       // lanes active
  std::uint64_t guarded_on;    // lanes active whose guard was true
  // Accesses with at least one lane by where they went, which a generic address decides lane by lane.
  std::uint64_t global_requests, shared_requests, local_requests;
  std::uint64_t sectors;     // 32 bytes of global memory
  std::uint64_t lines;       // 128 bytes of global memory
  std::uint64_t wavefronts;  // of shared memory
  std::uint64_t atomic_passes;  // of sectors of global memory
  std::uint64_t splits;         // branches that some of the lanes took
};

enum class FaultKind : std::int32_t {
  None,
  GlobalBounds,
  GlobalMisaligned,
  SharedBounds,
  SharedMisaligned,
  LocalBounds,
  LocalMisaligned,
  StepLimit,
  Deadlock,
  SyncMask,
  Trap,
  Assertion,
  BarrierOperand,  // no such barrier, or no such number of threads
  EarlyRead,   // of global memory, before the thread waited for the kernel before this one
  EarlyWrite,
  // Looked for in checked launches only:
  SharedRace,
  GlobalRace,
  SharedUnwritten,
  GlobalUnwritten,
  LocalUnwritten,
  CopyUnderWay,      // an access to what an asynchronous copy writes, before the thread waited for it
  AbsentLane,        // a shuffle from a lane that does not take part
  DivergentBarrier,  // lanes of a warp at different barrier instructions
  BarrierRace,  // nothing but chance decides in which phase of a barrier a warp takes part
};

struct Fault {
  FaultKind kind;
  std::int32_t instruction;
  std::uint64_t block;
  std::int32_t thread;
  std::int32_t bytes;
  std::uint64_t address;
  // The other side of a race; no instruction when there is none.
  std::int32_t other_instruction = -1;
  std::int32_t other_thread = 0;
  std::uint64_t other_block = 0;
};

struct LaunchRequest {
  const Instruction* code;
  std::int64_t instructions;
  const std::uint8_t* constants;  // starts with three registers for the block's index
  std::int64_t constant_bytes;
  std::int64_t warp_bytes;  // starts with four registers: thread index x, y, z, and warp index
  std::uint32_t grid[3];
  std::uint32_t block[3];
  std::int64_t shared_bytes;
  std::int64_t local_bytes;  // a thread
  const std::uint64_t* blocks;  // indices of the blocks to run, or null for all
  std::int64_t block_count;
  std::int64_t step_limit;  // warp instructions a block
  std::int32_t threads;
  std::int32_t count;  // whether to fill in counters
  std::int32_t programmatic;  // the kernel before it in the stream may still be running
  std::int32_t cooperative;   // blocks may wait for each other, so they take turns
  std::uint64_t seed;  // of what uninitialised memory holds
  std::uint64_t order;  // of warps and blocks: 0 as they are numbered, else by chance from this
  std::int32_t checks;  // whether to look for races and unwritten memory
  std::int64_t resident;      // blocks that the device, and blocks that the host has room for at once
  std::int64_t most_resident;
  const std::int32_t* operand_lists;  // of instructions with more operands than `results` and `sources` hold
};

struct LaunchResult {
  Fault fault;
  std::uint64_t barriers;
  std::uint64_t bytes_read;  // of distinct sectors
  std::uint64_t bytes_written;
  std::uint64_t busiest_atomic_passes;  // of the stretch of memory that has most
  std::uint64_t unchecked;  // 1 when the checks ran out of memory
  std::uint64_t executed;   // blocks
  std::uint64_t crowded;    // 1 when blocks waited for one that the host had no room for
  char message[512];  // of a failed assertion
};

}  // namespace astra
