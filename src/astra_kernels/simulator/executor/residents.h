// The blocks of a launch that are on the device together and may wait for one another.
#pragma once

#include <memory>
#include <vector>

#include "interpreter.h"

namespace astra {

// Those of a cooperative launch all start at once. Others start one after another, and further ones only when those
// that have started come no further without them: what does not wait runs as if blocks never met.
class Residents {
 public:
  Residents(const LaunchRequest& request, Interpreter& interpreter);
  // Runs blocks in turns until all have ended; false after a fault.
  bool run();
  std::uint64_t started() const { return started_; }
  // Whether blocks waited for others that the host has no memory for.
  bool crowded() const { return crowded_; }

 private:
  struct Resident {
    std::uint64_t block;
    std::unique_ptr<BlockState> state;
  };
  enum class Round { Ended, Moved, Waited, Faulted };

  Round take_round();
  bool repeats(int idle);
  std::uint64_t state() const;
  void fill(std::uint64_t wanted, bool beyond_sample);
  // The block to start next; of a sampled launch the others come last, and only if they are waited for.
  bool next_block(bool beyond_sample, std::uint64_t& block);
  void start(std::uint64_t block);

  const LaunchRequest& request_;
  Interpreter& interpreter_;
  const std::uint64_t blocks_;   // of the grid
  const std::uint64_t sampled_;  // that are to run
  std::uint64_t next_ = 0, next_other_ = 0, started_ = 0;
  std::uint64_t together_ = 1;  // so many are kept going
  bool crowded_ = false;
  std::uint64_t remembered_ = 0;  // the state at an earlier idle round
  std::vector<Resident> going_;
  std::vector<std::unique_ptr<BlockState>> free_;
  Random random_;
};

}  // namespace astra
