#include "residents.h"

#include <algorithm>
#include <cstring>

namespace astra {
namespace {

constexpr std::uint64_t kBlockSeeds = 0x9e3779b97f4a7c15ull;  // apart, so that blocks hold other bytes

// So many rounds in which every block only polls may pass before their states are compared, and in so many then.
constexpr int kIdleRounds = 1 << 12, kCompared = 64;

class Hash {
 public:
  void add(const void* data, std::size_t bytes) {
    const std::uint8_t* at = static_cast<const std::uint8_t*>(data);
    for (; bytes >= 8; at += 8, bytes -= 8) {
      std::uint64_t word;
      std::memcpy(&word, at, sizeof word);
      add(word);
    }
    for (; bytes; --bytes) add(*at++);
  }
  void add(std::uint64_t word) {
    value_ = (value_ ^ word) * 0x9e3779b97f4a7c15ull;
    value_ ^= value_ >> 32;
  }
  std::uint64_t value() const { return value_; }

 private:
  std::uint64_t value_ = 1;
};

}  // namespace

Residents::Residents(const LaunchRequest& request, Interpreter& interpreter)
    : request_(request),
      interpreter_(interpreter),
      blocks_(std::uint64_t(request.grid[0]) * request.grid[1] * request.grid[2]),
      sampled_(request.blocks ? std::uint64_t(request.block_count) : blocks_),
      random_(request.order) {
  if (request.cooperative) together_ = blocks_;
}

bool Residents::run() {
  const std::uint64_t on_device = request_.cooperative ? blocks_ : std::uint64_t(request_.resident);
  const std::uint64_t most = request_.cooperative ? blocks_ : std::uint64_t(request_.most_resident);
  fill(together_, false);
  if (request_.cooperative && request_.order) std::shuffle(going_.begin(), going_.end(), random_);
  for (int idle = 0; !going_.empty();) {
    interpreter_.forget_changes();
    const Round round = take_round();
    if (round == Round::Faulted) return false;
    idle = interpreter_.changed() ? 0 : idle + 1;
    const std::uint64_t before = started_;
    if (round == Round::Waited) {
      together_ = std::min({2 * std::max<std::uint64_t>(going_.size(), together_), on_device, most});
      fill(together_, true);
    } else {
      fill(together_, false);
    }
    if (started_ > before) idle = 0;
    if (going_.empty() || !repeats(idle)) continue;
    crowded_ = most < on_device && going_.size() == most && started_ < blocks_;
    interpreter_.enter_block(*going_.front().state);
    return interpreter_.fail_waiting();
  }
  return true;
}

// Whether blocks that change nothing are as they were in an earlier round: then they go round for ever. One that counts
// how often it has polled never is, and may give up. Compared are the rounds after 4096, 8192, 16384 idle ones and so on.
bool Residents::repeats(int idle) {
  if (idle < kIdleRounds) return false;
  const int since = idle - (1 << (31 - __builtin_clz(unsigned(idle))));
  if (since > kCompared) return false;
  const std::uint64_t now = state();
  if (since == 0) remembered_ = now;
  return since > 0 && now == remembered_;
}

std::uint64_t Residents::state() const {
  Hash hash;
  for (const Resident& resident : going_) {
    const BlockState& block = *resident.state;
    for (const Bytes* bytes : {&block.registers_, &block.shared_, &block.local_}) hash.add(bytes->data(), bytes->size());
    for (const Warp& warp : block.warps_) {
      hash.add(warp.alive);
      for (const Fragment& f : warp.fragments) hash.add(std::uint64_t(f.pc) << 32 | f.mask);
    }
  }
  return hash.value();
}

Residents::Round Residents::take_round() {
  const std::size_t before = going_.size();
  bool all_wait = true;
  std::size_t kept = 0;
  for (std::size_t i = 0; i < before; ++i) {
    Resident& resident = going_[i];
    interpreter_.has_polled();
    interpreter_.enter_block(*resident.state);
    const Turn turn = interpreter_.take_turn();
    interpreter_.leave_block(*resident.state);
    if (turn == Turn::Faulted) return Round::Faulted;
    all_wait = interpreter_.has_polled() && all_wait;
    if (turn == Turn::Ended)
      free_.push_back(std::move(resident.state));
    else if (kept++ != i)
      going_[kept - 1] = std::move(resident);
  }
  going_.resize(kept);
  if (kept < before) return Round::Ended;
  return all_wait ? Round::Waited : Round::Moved;
}

void Residents::fill(std::uint64_t wanted, bool beyond_sample) {
  for (std::uint64_t block; going_.size() < wanted && next_block(beyond_sample, block);) start(block);
}

bool Residents::next_block(bool beyond_sample, std::uint64_t& block) {
  if (next_ < sampled_) {
    block = request_.blocks ? request_.blocks[next_] : next_;
    ++next_;
    return true;
  }
  if (!beyond_sample || !request_.blocks) return false;
  const std::uint64_t* end = request_.blocks + sampled_;
  while (next_other_ < blocks_ && std::binary_search(request_.blocks, end, next_other_)) ++next_other_;
  block = next_other_++;
  return block < blocks_;
}

void Residents::start(std::uint64_t block) {
  std::unique_ptr<BlockState> state;
  if (free_.empty()) {
    state = std::make_unique<BlockState>(request_, request_.seed + (block + 1) * kBlockSeeds);
  } else {
    state = std::move(free_.back());
    free_.pop_back();
  }
  interpreter_.enter_block(*state);
  interpreter_.start_block(block);
  interpreter_.leave_block(*state);
  // In another order than that of their numbers, a later block may get its turn first.
  const std::size_t place = request_.order && !request_.cooperative ? random_() % (going_.size() + 1) : going_.size();
  going_.insert(going_.begin() + std::ptrdiff_t(place), Resident{block, std::move(state)});
  ++started_;
}

}  // namespace astra
