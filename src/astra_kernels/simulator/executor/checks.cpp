// Looks for accesses that nothing orders, and for reads of what nobody wrote.
#include "checks.h"

#include <atomic>
#include <utility>

#include "interpreter.h"

namespace astra {
namespace {

bool both_strong(const Track& a, const Track& b, Space space) {
  if (!a.strong || !b.strong) return false;
  // `volatile` does not order the lanes of a warp: code that relies on it is from before Volta.
  const bool by_volatile = a.relaxed_by_volatile || b.relaxed_by_volatile;
  return !(by_volatile && space == Space::Shared && a.warp == b.warp);
}

bool same_but_lanes(const Track& a, const Track& b) {
  return a.block == b.block && a.stamp == b.stamp && a.warp == b.warp && a.strong == b.strong;
}

// Keeps the read, in place of one that it makes superfluous where there is such a one.
void note_read(Cell& cell, const Track& mine) {
  Track* free = nullptr;
  for (Track& read : cell.reads) {
    if (!read.lanes) {
      if (!free) free = &read;
    } else if (same_but_lanes(read, mine)) {
      read.lanes |= mine.lanes;
      read.pc = mine.pc;
      return;
    } else if (read.block == mine.block && read.warp == mine.warp && read.strong == mine.strong &&
               !(read.lanes & ~mine.lanes)) {
      free = &read;
    }
  }
  (free ? *free : cell.reads[kReaders - 1]) = mine;
}

}  // namespace

LaunchChecks::LaunchChecks() {
  static std::atomic<std::uint32_t> launches{0};
  number = ++launches;
}

bool Interpreter::check(Warp& warp, const Instruction& in, const Access& access, Touch touch) {
  for (const Pointers& part : access) {
    if (part.space == Space::Local) {
      const bool looked_at = in.counted || touch != Touch::Read;  // parameters of calls are only written by name
      if (looked_at && !check_local(warp, part, touch)) return false;
      continue;
    }
    if (!check_part(warp, in, part, touch)) return false;
    if (in.order & kStrong) synchronise(warp, in, part, touch);
  }
  return true;
}

bool Interpreter::check_part(Warp& warp, const Instruction& in, const Pointers& part, Touch touch) {
  const bool is_shared = part.space == Space::Shared;
  const Stamp stamp = tracks_->order.stamp(warp.index);
  Attempt attempt{in, part, touch, 0, nullptr, 0, 0};
  Track mine{std::uint32_t(block_), touch == Touch::Copy ? kUnderWay : stamp, 0, std::uint32_t(pc_),
             warp.index, (in.order & kStrong) != 0, (in.order & kVolatile) != 0};
  for (Mask rest = part.mask; rest;) {
    attempt.lane = __builtin_ctz(rest);
    std::uint8_t* const at = part.of[attempt.lane];
    mine.lanes = 0;
    do {  // lanes that read the same are looked at together
      mine.lanes |= rest & -rest;
      rest &= rest - 1;
    } while (touch == Touch::Read && rest && part.of[__builtin_ctz(rest)] == at);
    Shadow* shadow = &tracks_->shared;
    std::uint64_t offset = std::uint64_t(at - shared_.data());
    if (!is_shared) {
      const std::uint64_t address = reinterpret_cast<std::uint64_t>(at);
      Allocation* holder = allocation_ ? allocation_ : device_memory().find(address);
      if (!holder->counted) continue;
      shadow = holder->shadow.get();
      offset = address - holder->address;
    }
    int count = 0;
    Cell* cells = shadow->cells(offset, access_bytes_, checks_->number, count);
    if (!cells) {
      checks_->spent = true;
      continue;
    }
    attempt.at = at;
    attempt.bytes = access_bytes_ / count;
    for (int k = 0; k < count; ++k) {
      attempt.offset = k * attempt.bytes;
      if (!check_cell(warp, cells[k], mine, attempt)) return false;
    }
  }
  return true;
}

bool Interpreter::check_cell(Warp& warp, Cell& cell, const Track& mine, const Attempt& attempt) {
  const bool is_shared = attempt.part.space == Space::Shared;
  const FaultKind race = is_shared ? FaultKind::SharedRace : FaultKind::GlobalRace;
  const BlockOrder& order = tracks_->order;
  const bool reads = attempt.touch == Touch::Read || attempt.touch == Touch::Atomic;
  if (!cell.written() && reads && checks_->unwritten.kind == FaultKind::None) {
    fail_race(is_shared ? FaultKind::SharedUnwritten : FaultKind::GlobalUnwritten, warp, attempt.lane,
              Track{}, 0, attempt);
    checks_->unwritten = std::exchange(fault_, Fault{});
  }
  int lane = 0, other = 0;
  if (cell.write.lanes && cell.write.stamp == kUnderWay)
    return fail_race(FaultKind::CopyUnderWay, warp, attempt.lane, cell.write,
                     __builtin_ctz(cell.write.lanes), attempt);
  for (const Track* before : {&cell.write, &cell.strong}) {
    if (before->lanes && !both_strong(mine, *before, attempt.part.space) &&
        order.unordered(warp.index, mine.lanes, *before, lane, other) &&
        (attempt.touch != Touch::Write || may_differ(warp, attempt, *before)))
      return fail_race(race, warp, lane, *before, other, attempt);
  }
  if (attempt.touch == Touch::Read) {
    note_read(cell, mine);
    return true;
  }
  for (const Track& read : cell.reads) {
    if (read.lanes && !both_strong(mine, read, attempt.part.space) &&
        order.unordered(warp.index, mine.lanes, read, lane, other))
      return fail_race(race, warp, lane, read, other, attempt);
  }
  if (mine.strong) {
    cell.strong = mine;  // what is not ordered with others' strong writes stays known
  } else {
    cell = Cell{};
    cell.write = mine;
  }
  return true;
}

// Whether a store changes what another thread's store, which nothing orders with it, has left or is about to leave.
bool Interpreter::may_differ(const Warp& warp, const Attempt& attempt, const Track& before) const {
  const Instruction& in = attempt.in;
  if (in.handler != Handler::store) return true;  // a matrix, whose rows come from other lanes
  auto value = [&](int lane, std::uint8_t* bytes) {
    const std::size_t slot = in.result_kind == RegisterKind::Lanes64 ? 8 : 4;
    for (int k = 0; k < in.elements; ++k)
      std::memcpy(bytes + k * in.element_bytes, source(warp, in.sources[k + 1]) + std::size_t(lane) * slot,
                  in.element_bytes);
  };
  std::uint8_t mine[16], others[16];
  value(attempt.lane, mine);
  const int other = __builtin_ctz(before.lanes);
  const bool at_once = before.block == block_ && before.warp == warp.index && before.pc == std::uint32_t(pc_) &&
                       attempt.part.mask >> other & 1u && attempt.part.of[other] == attempt.at;
  if (at_once) value(other, others);
  const std::uint8_t* held = at_once ? others : attempt.at;
  return std::memcmp(mine + attempt.offset, held + attempt.offset, std::size_t(attempt.bytes)) != 0;
}

bool Interpreter::fail_race(FaultKind kind, const Warp& warp, int lane, const Track& other, int other_lane,
                            const Attempt& attempt) {
  const std::uint64_t start =
      attempt.part.space == Space::Shared ? reinterpret_cast<std::uint64_t>(shared_.data()) : 0;
  fail(kind, warp, lane, reinterpret_cast<std::uint64_t>(attempt.at) - start, access_bytes_);
  if (!other.lanes) return false;
  fault_.other_instruction = std::int32_t(other.pc);
  fault_.other_block = other.block;
  fault_.other_thread = std::int32_t(other.warp * kLanes) + other_lane;
  return false;
}

// An element counts as written when one of its bytes is: a copied structure may have gaps.
bool Interpreter::check_local(Warp& warp, const Pointers& part, Touch touch) {
  for (Mask rest = part.mask; rest; rest &= rest - 1) {
    const int lane = __builtin_ctz(rest);
    const auto offset = part.of[lane] - local_.data();
    std::uint8_t* written = tracks_->local_written.data() + offset;
    bool any = false;
    for (int i = 0; i < access_bytes_; ++i) any |= written[i] != 0;
    if (touch != Touch::Write && !any)
      return fail(FaultKind::LocalUnwritten, warp, lane, std::uint64_t(part.of[lane] - warp.local) %
                  std::uint64_t(request_.local_bytes), access_bytes_);
    if (touch != Touch::Read) std::memset(written, 1, std::size_t(access_bytes_));
  }
  return true;
}

// At a block's end, and where a fault may follow from a read of garbage. What a block read of global memory may yet be
// written by another one; then it is a race.
bool Interpreter::report_unwritten(bool launch_ends) {
  if (!checks_ || checks_->unwritten.kind == FaultKind::None) return false;
  if (checks_->unwritten.kind == FaultKind::GlobalUnwritten && !launch_ends) return false;
  if (fault_.kind == FaultKind::SharedRace || fault_.kind == FaultKind::GlobalRace) return false;
  fault_ = checks_->unwritten;
  return true;
}

void Interpreter::synchronise(Warp& warp, const Instruction& in, const Pointers& part, Touch touch) {
  const bool is_shared = part.space == Space::Shared;
  BlockOrder& order = tracks_->order;
  Published& published = is_shared ? tracks_->published : checks_->published;
  if (in.order & kRelease) order.fence(warp.index, part.mask);
  for (Mask rest = part.mask; rest; rest &= rest - 1) {
    const int lane = __builtin_ctz(rest);
    const std::uint64_t place = reinterpret_cast<std::uint64_t>(part.of[lane]);
    if (touch != Touch::Write) order.acquire(warp.index, lane, place, published);
    if (touch != Touch::Read) order.publish(warp.index, lane, place, published);
  }
}

// Gathers what the warp knows. It must know that the phase before this one has begun with all its threads: else it
// could as well have taken part in that one.
bool Interpreter::check_arrival(Warp& warp, Barrier& barrier) {
  if (!barrier.expected) return true;
  const int pc = warp.fragments.front().pc - 1;
  int lane = 0, other = 0;
  for (const Track& before : barrier.earlier) {
    if (before.warp == warp.index || !tracks_->order.unordered(warp.index, warp.alive, before, lane, other)) continue;
    pc_ = pc;
    fail(FaultKind::BarrierRace, warp, lane, 0, 0);
    fault_.other_instruction = std::int32_t(before.pc);
    fault_.other_block = block_;
    fault_.other_thread = std::int32_t(before.warp * kLanes) + other;
    return false;
  }
  const Stamp at = tracks_->order.gather(warp.index, warp.alive, barrier.gathered);
  barrier.came.push_back({std::uint32_t(block_), at, warp.alive, std::uint32_t(pc), warp.index, 0, 0});
  return true;
}

// What a full barrier orders, and whether each warp came to it as one.
bool Interpreter::check_release(int id, const Barrier& barrier) {
  const bool all = !barrier.expected || (!barrier.passed_by && barrier.threads >= threads_alive());
  if (all) tracks_->order.meet_all();
  for (const Warp& warp : warps_) {
    int first = -1;
    for (const Fragment& fragment : warp.fragments) {
      if (fragment.state != State::AtBarrier || fragment.barrier != id || !fragment.counted) continue;
      const int pc = fragment.pc - 1;
      if (!all) tracks_->order.tell(warp.index, fragment.mask, barrier.gathered);
      if (request_.code[pc].order) continue;
      if (first >= 0 && first != pc) {
        pc_ = pc;
        fail(FaultKind::DivergentBarrier, warp, __builtin_ctz(fragment.mask), 0, 0);
        fault_.other_instruction = first;
        fault_.other_block = block_;
        fault_.other_thread = std::int32_t(warp.index * kLanes) + __builtin_ctz(warp.fragments[0].mask);
        return false;
      }
      first = pc;
    }
  }
  return true;
}

// A discard is a weak write of no value in particular.
bool Interpreter::check_discard(Warp& warp, const Instruction& in, const Addresses& at, Mask mask) {
  constexpr int kPart = 16;
  Access access{};
  access.count = 1;
  Pointers& part = access.parts[0];
  part.mask = mask;
  part.space = Space::Global;
  access_bytes_ = kPart;
  for (int offset = 0; offset < kDiscardBytes; offset += kPart) {
    for (int i = 0; i < kLanes; ++i) part.of[i] = reinterpret_cast<std::uint8_t*>(at.of[i] + std::uint64_t(offset));
    if (!check(warp, in, access, Touch::Write)) return false;
    for (Mask rest = mask; rest; rest &= rest - 1) {
      const std::uint64_t address = at.of[__builtin_ctz(rest)] + std::uint64_t(offset);
      Allocation* holder = device_memory().find(address);
      int count = 0;
      Cell* cells = holder->shadow->cells(address - holder->address, kPart, checks_->number, count);
      for (int k = 0; cells && k < count; ++k) cells[k].write.discarded = 1;
    }
  }
  return true;
}

void Interpreter::check_meeting(Warp& warp, Mask group) { tracks_->order.meet(warp.index, group); }

// From now on the copy is a write of the thread that waited for it.
void Interpreter::complete_copy(Warp& warp, const PendingCopy& copy) {
  int count = 0;
  Cell* cells = tracks_->shared.cells(copy.to, copy.bytes, checks_->number, count);
  for (int k = 0; cells && k < count; ++k) {
    Track& write = cells[k].write;
    const bool mine = write.warp == warp.index && write.lanes == Mask(1) << copy.lane;
    if (mine && write.stamp == kUnderWay) write.stamp = tracks_->order.stamp(warp.index);
  }
}

}  // namespace astra
