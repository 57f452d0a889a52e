// Which accesses of a launch come before which others: happens-before, by barriers, warp-wide instructions, and
// by what one thread publishes (a fence, then a strong write) and another one reads.
//
// Each synchronising event of a block takes the next stamp. A thread knows another one up to a stamp: what that
// one did until then is ordered before what this one does now. Nearly all knowledge is that of the last barrier,
// one stamp for the block, or of the last warp-wide instruction, one for the warp; the rest is kept apart.
#pragma once

#include <map>
#include <memory>
#include <unordered_map>
#include <utility>
#include <vector>

#include "shadow.h"

namespace astra {

// Up to where a block is known: all its threads up to `floor`, some further.
struct BlockKnowledge {
  Stamp floor = 0;
  std::map<std::uint32_t, Stamp> threads;
};
// By block.
using Knowledge = std::map<std::uint32_t, std::shared_ptr<const BlockKnowledge>>;
using Known = std::shared_ptr<const Knowledge>;

Known join(const Known& a, const Known& b);

// What the threads knew that came to a barrier, and what they had known at their fences.
struct Gathered {
  Known known, fenced;
};

// What was published at an address, or for shared memory at an offset.
using Published = std::unordered_map<std::uint64_t, Known>;

class BlockOrder {
 public:
  // `lanes`: of each warp.
  BlockOrder(std::uint32_t block, const std::vector<Mask>& lanes);

  Stamp stamp(std::uint32_t warp) const { return warps_[warp].now; }
  // The first of `mine` and the first of the track's lanes that nothing orders; false when all are ordered.
  bool unordered(std::uint32_t warp, Mask mine, const Track& track, int& lane, int& other) const;

  // Lanes of a warp that met in one instruction.
  void meet(std::uint32_t warp, Mask group);
  // A barrier for which all threads that have not ended came.
  void meet_all();
  // A barrier of some threads: what they know is gathered as they come, and told to those that wait.
  Stamp gather(std::uint32_t warp, Mask lanes, Gathered& gathered);
  void tell(std::uint32_t warp, Mask lanes, const Gathered& gathered);

  void fence(std::uint32_t warp, Mask lanes);
  // A strong write: publishes what the lane, and those that it has met since their fences, knew at their last fence.
  void publish(std::uint32_t warp, int lane, std::uint64_t place, Published& published);
  // A strong read.
  void acquire(std::uint32_t warp, int lane, std::uint64_t place, const Published& published);

 private:
  struct Rows {
    Stamp of[kLanes][kLanes] = {};  // what each lane knows of the others
  };
  struct Warp {
    Mask lanes = 0;
    Stamp now = 2;
    Stamp floor = 0;             // all lanes know all lanes up to here
    std::unique_ptr<Rows> rows;  // made when only some lanes meet
    std::vector<Known> more;     // by lane: of other warps and blocks; empty when there is none
    std::vector<Known> fenced;   // by lane: at the last fence
    std::vector<Known> acquired;  // by lane: what was taken over last
  };
  Stamp event(Warp& warp);
  Stamp knows_lane(const Warp& warp, int lane, int other) const;
  bool knows(std::uint32_t warp, int lane, std::uint32_t block, std::uint32_t thread, Stamp stamp) const;
  Known snapshot(std::uint32_t warp, Mask lanes, Stamp now) const;

  std::uint32_t block_;
  Stamp next_ = 2;
  Stamp floor_ = 0;
  Known common_;  // what all threads know of other blocks
  Known fenced_;  // what anybody knew at a fence before the last barrier
  std::vector<Warp> warps_;
};

}  // namespace astra
