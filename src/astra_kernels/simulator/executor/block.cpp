// One block: starting its warps, giving them turns, and its barriers.
#include <algorithm>

#include "interpreter.h"

namespace astra {
namespace {

// What is wrong with a barrier's operand, as the size of the fault; else it is the number of threads of the others.
constexpr int kBadBarrier = 0, kBadCount = 1;

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
      fail(FaultKind::StepLimit, warp, 0, std::uint64_t(request_.step_limit), 0);
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

// Lanes come to a barrier, where they wait for the others of their warp, even at bar.arrive.
bool Interpreter::arrive(Warp& warp, Fragment& fragment, const Instruction& in) {
  changed_ = true;
  const int lane = __builtin_ctz(fragment.mask);
  const std::uint32_t id = lanes32(warp, in.sources[0])[lane];
  if (id >= barriers_.size()) return fail(FaultKind::BarrierOperand, warp, lane, id, kBadBarrier);
  if (in.sources[1] != kNone) {
    const std::uint32_t count = lanes32(warp, in.sources[1])[lane];
    const bool none = count == 0 && in.handler == Handler::barrier_arrive;
    if (count % kLanes || none) return fail(FaultKind::BarrierOperand, warp, lane, count, kBadCount);
  }
  fragment.state = State::AtBarrier;
  fragment.barrier = int(id);
  fragment.counted = false;
  return arrive_as_one(warp);
}

// Lets a warp arrive whose lanes have all come, but for those that have ended. The phase is over the moment that the
// last of the threads that it is for have arrived: who comes later takes part in the next one.
bool Interpreter::arrive_as_one(Warp& warp) {
  if (warp.fragments.empty()) return true;
  const int id = warp.fragments.front().barrier;
  for (const Fragment& f : warp.fragments)
    if (f.state != State::AtBarrier || f.counted || f.barrier != id) return true;
  Barrier& barrier = barriers_[std::size_t(id)];
  for (const Fragment& f : warp.fragments)
    if (!join_phase(warp, f, barrier)) return false;
  barrier.threads += __builtin_popcount(warp.alive);
  barrier.arrived += kLanes;
  if (checks_ && !check_arrival(warp, barrier)) return false;
  for (Fragment& f : warp.fragments) {
    f.counted = true;
    if (request_.code[f.pc - 1].handler == Handler::barrier_arrive) f.state = State::Ready;
  }
  return !barrier.expected || barrier.arrived < barrier.expected || complete(id);
}

bool Interpreter::join_phase(const Warp& warp, const Fragment& fragment, Barrier& barrier) {
  const Instruction& in = request_.code[fragment.pc - 1];  // already past it
  barrier.waited |= (warp.waited & fragment.mask) != 0;
  barrier.passed_by |= in.handler == Handler::barrier_arrive;
  if (in.mode) {  // a reduction: count the true predicates
    Mask votes = *reinterpret_cast<const Mask*>(source(warp, in.sources[2]));
    barrier.votes += __builtin_popcount(votes & fragment.mask);
  }
  if (in.sources[1] == kNone) return true;
  const int lane = __builtin_ctz(fragment.mask), count = int(lanes32(warp, in.sources[1])[lane]);
  if (barrier.expected && count != barrier.expected) {
    pc_ = fragment.pc - 1;
    return fail(FaultKind::BarrierOperand, warp, lane, std::uint64_t(count), barrier.expected);
  }
  barrier.expected = count;
  return true;
}

bool Interpreter::release_barriers() {
  bool released = false;
  for (int id = 0; id < int(barriers_.size()); ++id) {
    const Barrier& barrier = barriers_[std::size_t(id)];
    if (barrier.expected || !barrier.threads || barrier.threads < threads_alive()) continue;
    released = true;
    if (!complete(id)) break;
  }
  return released;
}

bool Interpreter::complete(int id) {
  Barrier barrier = std::move(barriers_[std::size_t(id)]);
  barriers_[std::size_t(id)] = Barrier{};
  if (checks_ && !check_release(id, barrier)) return false;
  barriers_[std::size_t(id)].earlier = std::move(barrier.came);
  release(id, barrier);
  ++barriers_completed_;
  return true;
}

void Interpreter::release(int id, const Barrier& barrier) {
  for (Warp& warp : warps_) {
    for (Fragment& fragment : warp.fragments) {
      if (fragment.state != State::AtBarrier || fragment.barrier != id || !fragment.counted) continue;
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
