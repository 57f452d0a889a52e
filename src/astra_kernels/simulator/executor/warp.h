// A warp: its registers, and which of its lanes are where.
//
// Lanes that went different ways at a branch form fragments. The fragment furthest behind runs first
// and stops where another one waits, so that lanes join again at the first common instruction.
#pragma once

#include <vector>

#include "program.h"

namespace astra {

enum class State : std::uint8_t {
  Ready,
  Meeting,    // at an instruction that waits for other lanes of the warp
  AtBarrier,  // of the block
};

struct Fragment {
  int pc;
  Mask mask;
  State state = State::Ready;
  Mask members = 0;  // while Meeting: the lanes it waits for
  int barrier = 0;   // while AtBarrier: which one
  bool counted = false;  // while AtBarrier: its warp has arrived there
  std::uint64_t last_run = 0;
};

// An asynchronous copy to shared memory that is not yet visible.
struct PendingCopy {
  int lane;
  std::uint32_t group;
  std::uint32_t to;
  std::uint64_t from;
  std::uint8_t bytes, source_bytes;
};

struct Warp {
  std::uint8_t* registers;
  std::uint8_t* local;
  std::uint32_t index;
  Mask alive;
  Mask waited;  // lanes that may rely on the kernel before this one having ended
  std::vector<Fragment> fragments;
  std::vector<PendingCopy> copies;
  std::uint32_t committed[kLanes];
  std::uint64_t run_count;
  std::vector<Mask> met;     // groups that a warp barrier let go from different places
  bool polled;               // by the fragment that ran last: another one is to run now
  std::uint64_t since_join;  // turns since lanes last joined, for fairness

  // The fragment to run next, or null when all wait or the warp has ended. Joins what can join.
  Fragment* choose(const Instruction* code);
  // Where the chosen fragment must stop because another one is there.
  int stop_before(const Fragment& chosen) const;
  // Whether other lanes than the chosen fragment's could run.
  bool others_ready(const Fragment& chosen) const;
  void split(Fragment& fragment, Mask leaving, int pc);
  void retire(Mask lanes);

 private:
  void join();
  bool release_meeting(const Instruction* code);
};

}  // namespace astra
