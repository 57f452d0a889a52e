#include <numeric>

#include "garbage.h"
#include "interpreter.h"

namespace astra {
namespace {

// So long may a warp run before another of its block gets a turn (it may wait for that one).
constexpr std::int64_t kQuantum = 100'000;
// The same where blocks take turns, and all others may be waiting for that one meanwhile.
constexpr std::int64_t kSharedQuantum = 4'000;

std::uint64_t warps_of(const LaunchRequest& request) {
  const std::uint64_t threads = std::uint64_t(request.block[0]) * request.block[1] * request.block[2];
  return (threads + kLanes - 1) / kLanes;
}

template <class Slot>
void blend(std::uint8_t* to, const std::uint8_t* from, Mask mask) {
  Slot* kept = reinterpret_cast<Slot*>(to);
  const Slot* fresh = reinterpret_cast<const Slot*>(from);
  for (int i = 0; i < kLanes; ++i) kept[i] = mask >> i & 1u ? fresh[i] : kept[i];
}

void write_masked(std::uint8_t* to, const std::uint8_t* from, Mask mask, RegisterKind kind) {
  if (kind == RegisterKind::Lanes32) return blend<std::uint32_t>(to, from, mask);
  if (kind == RegisterKind::Lanes64) return blend<std::uint64_t>(to, from, mask);
  Mask kept, fresh;
  std::memcpy(&kept, to, sizeof kept);
  std::memcpy(&fresh, from, sizeof fresh);
  kept = (kept & ~mask) | (fresh & mask);
  std::memcpy(to, &kept, sizeof kept);
}

}  // namespace

BlockState::BlockState(const LaunchRequest& request, std::uint64_t seed)
    : registers_(warps_of(request) * std::uint64_t(request.warp_bytes)),
      shared_(std::uint64_t(request.shared_bytes)),
      local_(warps_of(request) * kLanes * std::uint64_t(request.local_bytes)),
      warps_(warps_of(request)),
      barriers_(16) {
  fill_with_garbage(registers_.data(), registers_.size(), seed);
  fill_with_garbage(local_.data(), local_.size(), seed + 1);
}

Interpreter::Interpreter(const LaunchRequest& request, InstructionCounters* counters, LaunchChecks* checks,
                         bool take_turns)
    : BlockState(request, request.seed),
      request_(request),
      counters_(counters),
      checks_(checks),
      take_turns_(take_turns),
      quantum_(take_turns ? kSharedQuantum : kQuantum) {
  constants_.assign(request.constants, request.constants + request.constant_bytes);
  garbage_.resize(shared_.size());
  recent_.resize(std::uint64_t(request.instructions));
  warp_order_.resize(warps_.size());
  std::iota(warp_order_.begin(), warp_order_.end(), 0u);
  fill_with_garbage(garbage_.data(), garbage_.size(), request.seed + 2);
}

bool Interpreter::fail(FaultKind kind, const Warp& warp, int lane, std::uint64_t address, int bytes) {
  fault_ = {kind, pc_, block_, std::int32_t(warp.index) * kLanes + lane, bytes, address};
  return false;
}

void Interpreter::write32(Warp& warp, std::int32_t operand, Mask mask, const std::uint32_t* values) {
  if (operand == kNone) return;
  blend<std::uint32_t>(warp.registers + operand, reinterpret_cast<const std::uint8_t*>(values), mask);
}

void Interpreter::write_predicate(Warp& warp, std::int32_t operand, Mask mask, Mask values) {
  if (operand == kNone) return;
  write_masked(warp.registers + operand, reinterpret_cast<const std::uint8_t*>(&values), mask,
               RegisterKind::Pred);
}

bool Interpreter::run_warp(Warp& warp) {
  const std::int64_t start = steps_;
  turn_ends_ = start + quantum_;
  while (steps_ < turn_ends_) {
    Fragment* fragment = warp.choose(request_.code);
    if (checks_ && !warp.met.empty()) {
      for (Mask group : warp.met) check_meeting(warp, group);
      warp.met.clear();
    }
    if (!fragment) return true;
    bool ok = counters_ ? advance<true>(warp, *fragment) : advance<false>(warp, *fragment);
    if (!ok) return false;
  }
  changed_ |= steps_ - start >= quantum_;  // too long for waiting
  return true;
}

// Runs a fragment until it waits, ends, splits, comes to where another one is, or has had its turn.
template <bool Count>
bool Interpreter::advance(Warp& warp, Fragment& fragment) {
  const Operation* const operations = operation_table();
  const Mask active = fragment.mask;
  const bool whole = active == warp.alive;
  const int stop = warp.stop_before(fragment);
  const std::int64_t until = steps_ + (warp.fragments.size() > 1 ? quantum_ / 16 : quantum_);
  int pc = fragment.pc;
  for (;;) {
    const Instruction& in = request_.code[pc];
    Mask mask = active;
    if (in.guard != kNone) {
      Mask guard = *reinterpret_cast<const Mask*>(warp.registers + in.guard);
      mask &= in.guard_negated ? ~guard : guard;
    }
    if (threads_meet(in.handler)) {
      fragment.pc = pc_ = pc;
      if (mask && mask != active) {  // lanes whose guard is false do not take part
        warp.split(fragment, active & ~mask, pc + 1);
        return true;
      }
      Next next = mask ? meet(warp, fragment, in, mask) : Next::Continue;
      if (next == Next::Faulted) return false;
      if (next == Next::Choose) return true;
    }
    if (Count) {
      InstructionCounters& counters = counters_[pc];
      ++counters.warps;
      counters.threads += std::uint64_t(__builtin_popcount(active));
      counters.guarded_on += std::uint64_t(__builtin_popcount(mask));
    }
    if (in.handler == Handler::elementwise) {
      const void* sources[4] = {source(warp, in.sources[0]), source(warp, in.sources[1]),
                                source(warp, in.sources[2]), source(warp, in.sources[3])};
      std::uint8_t* result = warp.registers + in.results[0];
      if (whole && mask == active) {
        operations[in.operation](result, sources);
      } else if (mask) {
        alignas(64) std::uint8_t fresh[8 * kLanes];
        operations[in.operation](fresh, sources);
        write_masked(result, fresh, mask, in.result_kind);
      }
      ++pc;
    } else {
      fragment.pc = pc_ = pc;
      Next next = special(warp, fragment, in, mask);
      if (next == Next::Faulted) return false;
      if (next == Next::Choose) return true;
      pc = fragment.pc;
    }
    if (++steps_ >= until || pc >= stop) {
      fragment.pc = pc;
      return true;
    }
  }
}

// After an access that may be part of a loop which waits for another block: that one gets its turn, once the
// warp's other lanes had theirs.
Interpreter::Next Interpreter::poll(Warp& warp, const Fragment& fragment) {
  if (!take_turns_) return Next::Continue;
  ++steps_;
  polled_ = true;
  warp.polled = warp.others_ready(fragment);
  if (!warp.polled) turn_ends_ = steps_;
  return Next::Choose;
}

Interpreter::Next Interpreter::branch(Warp& warp, Fragment& fragment, const Instruction& in,
                                      Mask mask) {
  if (mask == fragment.mask) {
    bool back = in.target <= fragment.pc;
    fragment.pc = in.target;  // going back may lead to where another fragment waits
    return back && warp.fragments.size() > 1 ? Next::Choose : Next::Continue;
  }
  if (mask && counters_) ++counters_[fragment.pc].splits;
  ++fragment.pc;
  if (!mask) return Next::Continue;
  warp.split(fragment, mask, in.target);
  return Next::Choose;
}

// Checks that all lanes named by a warp-wide instruction are here, or makes the fragment wait. Lanes may
// name different groups, such as the halves of a warp.
Interpreter::Next Interpreter::meet(Warp& warp, Fragment& fragment, const Instruction& in, Mask mask) {
  if (!lanes_meet(in.handler)) return Next::Continue;
  const std::uint32_t* members = lanes32(warp, in.sources[kMembers]);
  Mask named = 0;
  for (Mask rest = mask; rest; rest &= rest - 1) {
    const int lane = __builtin_ctz(rest);
    if (!(members[lane] >> lane & 1u)) {
      fail(FaultKind::SyncMask, warp, lane, members[lane], 0);
      return Next::Faulted;
    }
    named |= members[lane];
  }
  if (!(named & warp.alive & ~mask)) return Next::Continue;
  fragment.state = State::Meeting;
  fragment.members = named;
  return Next::Choose;
}

// Runs a warp-wide instruction once for each group of lanes that named the same members.
void Interpreter::exchange(Warp& warp, const Instruction& in, Mask mask) {
  const std::uint32_t* members = lanes32(warp, in.sources[kMembers]);
  while (mask) {
    const std::uint32_t named = members[__builtin_ctz(mask)];
    Mask group = 0;
    for (int lane = 0; lane < kLanes; ++lane) group |= Mask(members[lane] == named) << lane;
    group &= mask;
    mask &= ~group;
    if (checks_) check_meeting(warp, group);
    switch (in.handler) {
      case Handler::shuffle: shuffle(warp, in, group); break;
      case Handler::vote: vote(warp, in, group); break;
      case Handler::match: match(warp, in, group); break;
      case Handler::reduce: reduce(warp, in, group); break;
      case Handler::elect: elect(warp, in, group); break;
      default:  // warp_barrier: meeting was all, and what one lane waited for is there for the others
        if (warp.waited & group) warp.waited |= group;
        break;
    }
  }
}

Interpreter::Next Interpreter::special(Warp& warp, Fragment& fragment, const Instruction& in,
                                       Mask mask) {
  bool ok = true;
  if (in.handler == Handler::branch) return branch(warp, fragment, in, mask);
  ++fragment.pc;
  if (!mask) return Next::Continue;
  switch (in.handler) {
    case Handler::load: ok = load(warp, in, mask); break;
    case Handler::polling_load: return load(warp, in, mask) ? poll(warp, fragment) : Next::Faulted;
    case Handler::store: changed_ = true; ok = store(warp, in, mask); break;
    case Handler::atomic: ok = atomic(warp, in, mask); break;
    case Handler::polling_atomic:
      return atomic(warp, in, mask) ? poll(warp, fragment) : Next::Faulted;
    case Handler::discard: changed_ = true; ok = discard(warp, in, mask); break;
    case Handler::copy_async: ok = copy_async(warp, in, mask); break;
    case Handler::copy_commit: copy_commit(warp, mask); break;
    case Handler::copy_wait: copy_wait(warp, in, mask); break;
    case Handler::grid_wait: warp.waited |= mask; break;
    case Handler::trap: ok = fail(FaultKind::Trap, warp, __builtin_ctz(mask), 0, 0); break;
    case Handler::exit:
      changed_ = true;
      warp.retire(mask);
      return arrive_as_one(warp) ? Next::Choose : Next::Faulted;  // the others may have waited for these
    case Handler::barrier:
    case Handler::barrier_arrive: return arrive(warp, fragment, in) ? Next::Choose : Next::Faulted;
    case Handler::active_mask: {
      std::uint32_t values[kLanes];
      for (std::uint32_t& value : values) value = fragment.mask;
      write32(warp, in.results[0], mask, values);
      break;
    }
    case Handler::clock: {
      std::uint64_t* slot = reinterpret_cast<std::uint64_t*>(warp.registers + in.results[0]);
      for (int i = 0; i < kLanes; ++i)
        if (mask >> i & 1u) slot[i] = std::uint64_t(steps_);
      break;
    }
    case Handler::nop:
      if (checks_ && in.mode == kFence) tracks_->order.fence(warp.index, mask);
      break;
    case Handler::print: ok = print(warp, in, mask); break;
    case Handler::assert_fail: ok = assert_fail(warp, in, mask); break;
    case Handler::multiply_matrices: ok = whole_warp(warp, mask) && multiply_matrices(warp, in); break;
    case Handler::load_matrices: ok = whole_warp(warp, mask) && load_matrices(warp, in); break;
    case Handler::store_matrices: ok = whole_warp(warp, mask) && store_matrices(warp, in); break;
    case Handler::transpose_matrix:
      ok = whole_warp(warp, mask);
      if (ok) transpose_matrix(warp, in);
      break;
    default:
      exchange(warp, in, mask);
      ok = fault_.kind == FaultKind::None;
      break;
  }
  return ok ? Next::Continue : Next::Faulted;
}

}  // namespace astra
