// One block: starting its warps, giving them turns, and its barriers.
#include <algorithm>

#include "interpreter.h"

namespace astra {
namespace {

void fill32(std::uint8_t* slot, std::uint32_t value) {
  for (int i = 0; i < kLanes; ++i) std::memcpy(slot + 4 * i, &value, 4);
}

}  // namespace

void Interpreter::start_block(std::uint64_t block) {
  block_ = block;
  steps_ = 0;
  show_index();
  const std::uint32_t* shape = request_.block;
  if (!shared_.empty()) {  // every block finds other bytes
    const std::size_t turn = std::size_t(block * 1'000'003 % shared_.size());
    std::rotate_copy(garbage_.begin(), garbage_.begin() + std::ptrdiff_t(turn), garbage_.end(),
                     shared_.begin());
  }
  std::fill(barriers_.begin(), barriers_.end(), Barrier{});
  random_ = Random{request_.order ^ block * 0x9e3779b97f4a7c15ull};
  const std::uint32_t threads = shape[0] * shape[1] * shape[2];
  for (std::uint32_t w = 0; w < warps_.size(); ++w) {
    Warp& warp = warps_[w];
    const std::uint32_t first = w * kLanes, count = std::min<std::uint32_t>(kLanes, threads - first);
    warp = Warp{};
    warp.registers = registers_.data() + w * std::uint64_t(request_.warp_bytes);
    warp.local = local_.data() + w * kLanes * std::uint64_t(request_.local_bytes);
    warp.index = w;
    warp.alive = count == kLanes ? ~Mask(0) : (Mask(1) << count) - 1;
    warp.waited = request_.programmatic ? 0 : ~Mask(0);
    warp.fragments.push_back({0, warp.alive});
    std::uint32_t* place = reinterpret_cast<std::uint32_t*>(warp.registers);
    for (std::uint32_t i = 0; i < kLanes; ++i) {
      std::uint32_t thread = first + i;
      place[i] = thread % shape[0];
      place[kLanes + i] = thread / shape[0] % shape[1];
      place[2 * kLanes + i] = thread / (shape[0] * shape[1]);
      place[3 * kLanes + i] = w;
    }
  }
  if (!checks_) return;
  std::vector<Mask> lanes;
  for (const Warp& warp : warps_) lanes.push_back(warp.alive);
  tracks_ = std::make_shared<BlockChecks>(std::uint32_t(block), lanes, shared_.size(), local_.size());
}

void Interpreter::show_index() {
  const std::uint32_t* grid = request_.grid;
  const std::uint32_t index[3] = {std::uint32_t(block_ % grid[0]),
                                  std::uint32_t(block_ / grid[0] % grid[1]),
                                  std::uint32_t(block_ / grid[0] / grid[1])};
  for (int axis = 0; axis < 3; ++axis) fill32(constants_.data() + 128 * axis, index[axis]);
}

// The buffers stay where the warps point to.
void Interpreter::enter_block(BlockState& other) {
  std::swap(static_cast<BlockState&>(*this), other);
  show_index();
}

void Interpreter::leave_block(BlockState& other) { std::swap(static_cast<BlockState&>(*this), other); }

int Interpreter::threads_alive() const {
  int total = 0;
  for (const Warp& warp : warps_) total += __builtin_popcount(warp.alive);
  return total;
}

bool Interpreter::run_block(std::uint64_t block) {
  start_block(block);
  Turn turn = Turn::Going;
  while (turn == Turn::Going) turn = take_turn();
  return turn == Turn::Ended;
}

Turn Interpreter::take_turn() {
  const std::int64_t before = steps_;
  bool running = false;
  if (request_.order) std::shuffle(warp_order_.begin(), warp_order_.end(), random_);
  for (std::uint32_t which : warp_order_) {
    Warp& warp = warps_[which];
    if (!warp.alive) continue;
    running = true;
    if (!run_warp(warp)) return Turn::Faulted;
    if (steps_ > request_.step_limit) {
      fail(FaultKind::StepLimit, warp, 0, 0, 0);
      return Turn::Faulted;
    }
  }
  if (!running) return report_unwritten(false) ? Turn::Faulted : Turn::Ended;
  const bool released = release_barriers();
  if (fault_.kind != FaultKind::None) return Turn::Faulted;
  if (released || steps_ != before) return Turn::Going;
  return fail_waiting() ? Turn::Going : Turn::Faulted;
}

bool Interpreter::fail_waiting() {
  for (const Warp& warp : warps_) {
    if (warp.fragments.empty()) continue;
    const Fragment& waiting = warp.fragments.front();
    pc_ = waiting.state == State::Meeting ? waiting.pc : waiting.pc - 1;  // past a barrier, or what polls
    return fail(FaultKind::Deadlock, warp, __builtin_ctz(waiting.mask), 0, 0);
  }
  return true;
}

void Interpreter::arrive(Warp& warp, Fragment& fragment, const Instruction& in, bool wait) {
  changed_ = true;
  const int lane = __builtin_ctz(fragment.mask);
  const int id = int(lanes32(warp, in.sources[0])[lane] % barriers_.size());
  Barrier& barrier = barriers_[std::size_t(id)];
  const int threads = __builtin_popcount(fragment.mask);
  barrier.threads += threads;
  barrier.slots += fragment.mask == warp.alive ? kLanes : threads;
  barrier.waited |= (warp.waited & fragment.mask) != 0;
  if (in.sources[1] != kNone) barrier.expected = int(lanes32(warp, in.sources[1])[lane]);
  if (in.mode) {  // a reduction: count the true predicates
    Mask votes = *reinterpret_cast<const Mask*>(source(warp, in.sources[2]));
    barrier.votes += __builtin_popcount(votes & fragment.mask);
  }
  if (checks_) check_arrival(warp, fragment, barrier, wait);
  if (!wait) return;
  fragment.state = State::AtBarrier;
  fragment.barrier = id;
}

bool Interpreter::release_barriers() {
  bool released = false;
  for (int id = 0; id < int(barriers_.size()); ++id) {
    const Barrier barrier = barriers_[std::size_t(id)];
    bool full = barrier.expected ? barrier.slots >= barrier.expected
                                 : barrier.threads > 0 && barrier.threads >= threads_alive();
    if (!full) continue;
    barriers_[std::size_t(id)] = Barrier{};
    if (checks_ && !check_release(id, barrier)) return true;
    release(id, barrier);
    ++barriers_completed_;
    released = true;
  }
  return released;
}

void Interpreter::release(int id, const Barrier& barrier) {
  for (Warp& warp : warps_) {
    for (Fragment& fragment : warp.fragments) {
      if (fragment.state != State::AtBarrier || fragment.barrier != id) continue;
      const Instruction& in = request_.code[fragment.pc - 1];  // already past it
      fragment.state = State::Ready;
      if (barrier.waited) warp.waited |= fragment.mask;
      if (in.mode == 1) {
        std::uint32_t counts[kLanes];
        for (std::uint32_t& count : counts) count = std::uint32_t(barrier.votes);
        write32(warp, in.results[0], fragment.mask, counts);
      } else if (in.mode) {
        bool holds = in.mode == 2 ? barrier.votes == barrier.threads : barrier.votes > 0;
        write_predicate(warp, in.results[0], fragment.mask, holds ? ~Mask(0) : 0);
      }
    }
  }
}

}  // namespace astra
