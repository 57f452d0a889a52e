// Runs blocks of one launch on one host thread, one to its end or several in turns.
#pragma once

#include <new>
#include <string>
#include <utility>
#include <vector>

#include "checks.h"
#include "device_memory.h"
#include "program.h"
#include "traffic.h"
#include "warp.h"

namespace astra {

// A phase of a barrier of the block. With no explicit number of threads it waits for all that have not ended.
struct Barrier {
  int threads = 0;   // arrived
  int arrived = 0;   // the same, a warp counting as 32 even where lanes have ended
  int expected = 0;  // 0: all
  int votes = 0;     // arrived with a true predicate
  bool waited = false;  // one of them waited for the kernel before this one
  bool passed_by = false;  // one of them does not wait here
  // With checks, where there is a number of threads:
  Gathered gathered;           // what those know that came
  std::vector<Track> came;     // their arrivals
  std::vector<Track> earlier;  // those of the phase before
};

// Bytes that start at a cache line, so that no operation on 32 lanes touches more lines than it must.
template <class T>
struct AtCacheLine {
  using value_type = T;
  static constexpr std::align_val_t kLine{64};
  AtCacheLine() = default;
  template <class Other>
  AtCacheLine(const AtCacheLine<Other>&) {}
  T* allocate(std::size_t count) { return static_cast<T*>(::operator new(count * sizeof(T), kLine)); }
  void deallocate(T* at, std::size_t) { ::operator delete(at, kLine); }
  template <class Other>
  bool operator==(const AtCacheLine<Other>&) const { return true; }
  template <class Other>
  bool operator!=(const AtCacheLine<Other>&) const { return false; }
};
using Bytes = std::vector<std::uint8_t, AtCacheLine<std::uint8_t>>;

// What a block keeps between its turns.
struct BlockState {
  // Registers and local memory hold random bytes by `seed`.
  BlockState(const LaunchRequest& request, std::uint64_t seed);

  std::uint64_t block_ = 0;  // linear index
  std::int64_t steps_ = 0;
  Bytes registers_, shared_, local_;
  std::vector<Warp> warps_;
  std::vector<Barrier> barriers_;
  std::shared_ptr<BlockChecks> tracks_;  // null without checks
};

enum class Turn { Going, Ended, Faulted };

// Bounds and alignment of an access are checked in address_check.cpp, and in checked launches its order with others
// in checks.cpp. Memory that nobody wrote holds random bytes, so that luck does not help.
class Interpreter : private BlockState {
 public:
  // `checks` is null without checks. Where blocks take turns, a warp that polls ends its own.
  Interpreter(const LaunchRequest& request, InstructionCounters* counters, LaunchChecks* checks, bool take_turns);
  // Runs the block with this linear index to its end; false after a fault.
  bool run_block(std::uint64_t block);

  // For blocks that take turns: the present block changes places with another, and they change back.
  void enter_block(BlockState& other);
  void leave_block(BlockState& other);
  void start_block(std::uint64_t block);
  // Lets every warp of the present block run until it waits, polls or has run long enough.
  Turn take_turn();
  // Whether a turn since `forget_changes` did what another block could be waiting for.
  bool changed() const { return changed_; }
  void forget_changes() { changed_ = false; }
  // Whether a warp ended its turn early since this was last asked, as it may be waiting for another block.
  bool has_polled() { return std::exchange(polled_, false); }
  // The fault of a block whose threads wait in vain.
  bool fail_waiting();
  const Fault& fault() const { return fault_; }
  // Makes an earlier read of what nobody wrote the fault; false when there was none.
  bool report_unwritten(bool launch_ends);
  // What a failed assertion says.
  const std::string& message() const { return message_; }
  std::uint64_t barriers() const { return barriers_completed_; }

 private:
  // What became of the fragment after an instruction.
  enum class Next { Continue, Choose, Faulted };
  // The lanes' host addresses of an access, and whether they lie side by side.
  struct Pointers {
    alignas(64) std::uint8_t* of[kLanes];
    Mask mask;
    Space space;
    bool contiguous;
  };
  // A line of printf while it is put together.
  struct Printed {
    std::string text;
    int arguments = 0;
  };
  // An access by its memory spaces: one part, or up to three when the address is generic.
  struct Access {
    Pointers parts[3];
    int count = 0;
    const Pointers* begin() const { return parts; }
    const Pointers* end() const { return parts + count; }
  };

  // An access to one granule of the shadow (checks.cpp).
  struct Attempt {
    const Instruction& in;
    const Pointers& part;
    Touch touch;
    int lane;
    std::uint8_t* at;  // the access
    int offset, bytes;  // the granule, from there
  };

  // interpreter.cpp
  bool run_warp(Warp& warp);
  template <bool Count>
  bool advance(Warp& warp, Fragment& fragment);
  Next special(Warp& warp, Fragment& fragment, const Instruction& in, Mask mask);
  Next poll(Warp& warp, const Fragment& fragment);
  Next branch(Warp& warp, Fragment& fragment, const Instruction& in, Mask mask);
  Next meet(Warp& warp, Fragment& fragment, const Instruction& in, Mask mask);
  void exchange(Warp& warp, const Instruction& in, Mask mask);
  bool fail(FaultKind kind, const Warp& warp, int lane, std::uint64_t address, int bytes);

  // block.cpp
  void show_index();
  bool arrive(Warp& warp, Fragment& fragment, const Instruction& in);
  bool arrive_as_one(Warp& warp);
  bool join_phase(const Warp& warp, const Fragment& fragment, Barrier& barrier);
  bool complete(int id);
  bool release_barriers();
  void release(int id, const Barrier& barrier);
  int threads_alive() const;

  // memory_access.cpp
  bool load(Warp& warp, const Instruction& in, Mask mask);
  bool store(Warp& warp, const Instruction& in, Mask mask);
  bool atomic(Warp& warp, const Instruction& in, Mask mask);
  bool discard(Warp& warp, const Instruction& in, Mask mask);
  bool copy_async(Warp& warp, const Instruction& in, Mask mask);
  void copy_commit(Warp& warp, Mask mask);
  void copy_wait(Warp& warp, const Instruction& in, Mask mask);

  // address_check.cpp
  bool find_parts(Warp& warp, const Instruction& in, Mask mask, bool writes, Access& access);
  Addresses addresses(const Warp& warp, const Instruction& in, int source) const;
  bool resolve(Warp& warp, Space space, const Addresses& at, Mask mask, bool writes,
               Pointers& pointers);
  bool global_pointers(Warp& warp, const Addresses& at, Mask mask, bool writes, Pointers& pointers);
  bool shared_pointers(Warp& warp, const Addresses& at, Mask mask, Pointers& pointers);
  bool local_pointers(Warp& warp, const Addresses& at, Mask mask, Pointers& pointers);
  void count_shared(const Addresses& at, Mask mask, bool contiguous);
  bool too_early(Warp& warp, const Addresses& at, Mask mask, bool writes);
  void mark_sectors(const Addresses& at, Mask mask, bool writes, bool contiguous);
  void count_atomic_passes(const Addresses& at, Mask mask);

  // checks.cpp
  bool check(Warp& warp, const Instruction& in, const Access& access, Touch touch);
  bool check_part(Warp& warp, const Instruction& in, const Pointers& part, Touch touch);
  bool check_local(Warp& warp, const Pointers& part, Touch touch);
  bool check_cell(Warp& warp, Cell& cell, const Track& mine, const Attempt& attempt);
  bool may_differ(const Warp& warp, const Attempt& attempt, const Track& before) const;
  bool fail_race(FaultKind kind, const Warp& warp, int lane, const Track& other, int other_lane,
                 const Attempt& attempt);
  void synchronise(Warp& warp, const Instruction& in, const Pointers& part, Touch touch);
  bool check_arrival(Warp& warp, Barrier& barrier);
  bool check_release(int id, const Barrier& barrier);
  void check_meeting(Warp& warp, Mask group);
  void complete_copy(Warp& warp, const PendingCopy& copy);
  bool check_discard(Warp& warp, const Instruction& in, const Addresses& at, Mask mask);

  // warp_operations.cpp
  void shuffle(Warp& warp, const Instruction& in, Mask mask);
  void vote(Warp& warp, const Instruction& in, Mask mask);
  void match(Warp& warp, const Instruction& in, Mask mask);
  void reduce(Warp& warp, const Instruction& in, Mask mask);
  void elect(Warp& warp, const Instruction& in, Mask mask);

  // matrix_operations.cpp
  bool whole_warp(const Warp& warp, Mask mask);
  bool multiply_matrices(Warp& warp, const Instruction& in);
  void multiply_doubles(Warp& warp, const std::int32_t* list, int rows, int depth);
  bool load_matrices(Warp& warp, const Instruction& in);
  bool store_matrices(Warp& warp, const Instruction& in);
  void transpose_matrix(Warp& warp, const Instruction& in);

  // printing.cpp
  bool print(Warp& warp, const Instruction& in, Mask mask);
  bool assert_fail(Warp& warp, const Instruction& in, Mask mask);
  bool read_for_print(Warp& warp, int lane, std::uint64_t address, void* to, int bytes);
  bool read_text(Warp& warp, int lane, std::uint64_t address, std::string& text);
  bool format_line(Warp& warp, int lane, const std::string& format, std::uint64_t arguments, Printed& out);

  const std::uint8_t* source(const Warp& warp, std::int32_t operand) const {
    return operand & kConstant ? constants_.data() + (operand & ~kConstant)
                               : warp.registers + operand;
  }
  const std::uint32_t* lanes32(const Warp& warp, std::int32_t operand) const {
    return reinterpret_cast<const std::uint32_t*>(source(warp, operand));
  }
  // Writes a result for the lanes in `mask`, unless the instruction discards it.
  static void write32(Warp& warp, std::int32_t operand, Mask mask, const std::uint32_t* values);
  static void write_predicate(Warp& warp, std::int32_t operand, Mask mask, Mask values);

  const LaunchRequest& request_;
  InstructionCounters* counters_;  // null when not counting
  LaunchChecks* const checks_;     // null without checks
  const bool take_turns_;
  const std::int64_t quantum_;     // steps of a warp before another one of its block gets a turn
  Bytes constants_;
  Bytes garbage_;  // what shared memory holds before it is written
  std::vector<Allocation*> recent_;  // the allocation that each instruction accessed last
  Allocation* allocation_ = nullptr;  // that of the access in progress, null when there are several
  int pc_ = 0;
  int access_bytes_ = 0;
  std::vector<std::uint32_t> warp_order_;  // in which warps get their turns
  Random random_{0};
  std::int64_t turn_ends_ = 0;  // the present warp's, in steps
  bool polled_ = false;
  bool changed_ = false;        // something that another block could be waiting for, or a block's end
  std::uint64_t barriers_completed_ = 0;
  Fault fault_{};
  std::string message_;
};

}  // namespace astra
