// Loads, stores, atomics and asynchronous copies.
#include <algorithm>
#include <utility>

#include "atomics.h"
#include "garbage.h"
#include "interpreter.h"

namespace astra {
namespace {

// One element of each lane between memory and a register, `T` in memory and `Slot` in the register.
template <class T, class Slot>
void load_lanes(std::uint8_t* const* from, int stride, bool contiguous, Mask mask, int offset,
                std::uint8_t* result) {
  Slot* to = reinterpret_cast<Slot*>(result);
  using Wide = std::conditional_t<std::is_signed_v<T>, std::make_signed_t<Slot>, Slot>;
  if (contiguous) {
    const std::uint8_t* start = from[0] + offset;
    for (int i = 0; i < kLanes; ++i) {
      T value;
      std::memcpy(&value, start + i * stride, sizeof value);
      to[i] = Slot(Wide(value));
    }
    return;
  }
  for (Mask rest = mask; rest; rest &= rest - 1) {
    const int i = __builtin_ctz(rest);
    T value;
    std::memcpy(&value, from[i] + offset, sizeof value);
    to[i] = Slot(Wide(value));
  }
}

template <class T, class Slot>
void store_lanes(std::uint8_t* const* to, int stride, bool contiguous, Mask mask, int offset,
                 const std::uint8_t* source) {
  const Slot* from = reinterpret_cast<const Slot*>(source);
  if (contiguous) {
    std::uint8_t* start = to[0] + offset;
    for (int i = 0; i < kLanes; ++i) {
      T value = T(from[i]);
      std::memcpy(start + i * stride, &value, sizeof value);
    }
    return;
  }
  for (Mask rest = mask; rest; rest &= rest - 1) {
    const int i = __builtin_ctz(rest);
    T value = T(from[i]);
    std::memcpy(to[i] + offset, &value, sizeof value);
  }
}

// Calls `visit` with a value of the memory type and one of the register's lane type.
template <class Visit>
void with_types(const Instruction& in, Visit visit) {
  const bool wide = in.result_kind == RegisterKind::Lanes64;
  auto pick = [&](auto type) {
    wide ? visit(type, std::uint64_t(0)) : visit(type, std::uint32_t(0));
  };
  switch (in.element_bytes) {
    case 1: in.sign_extend ? pick(std::int8_t(0)) : pick(std::uint8_t(0)); break;
    case 2: in.sign_extend ? pick(std::int16_t(0)) : pick(std::uint16_t(0)); break;
    case 4: in.sign_extend ? pick(std::int32_t(0)) : pick(std::uint32_t(0)); break;
    default: visit(std::uint64_t(0), std::uint64_t(0)); break;
  }
}

std::uint64_t lane_value(const std::uint8_t* lanes, int lane, int bytes) {
  std::uint64_t value = 0;
  std::memcpy(&value, lanes + lane * bytes, std::size_t(bytes));
  return value;
}

}  // namespace

bool Interpreter::load(Warp& warp, const Instruction& in, Mask mask) {
  Access access;
  if (!find_parts(warp, in, mask, false, access)) return false;
  if (checks_ && !check(warp, in, access, Touch::Read)) return false;
  const int stride = in.element_bytes * in.elements;
  for (const Pointers& part : access) {
    for (int k = 0; k < in.elements; ++k) {
      if (in.results[k] == kNone) continue;
      with_types(in, [&](auto memory, auto slot) {
        load_lanes<decltype(memory), decltype(slot)>(part.of, stride, part.contiguous, part.mask,
                                                     k * in.element_bytes,
                                                     warp.registers + in.results[k]);
      });
    }
  }
  return true;
}

bool Interpreter::store(Warp& warp, const Instruction& in, Mask mask) {
  Access access;
  if (!find_parts(warp, in, mask, true, access)) return false;
  if (checks_ && !check(warp, in, access, Touch::Write)) return false;
  const int stride = in.element_bytes * in.elements;
  for (const Pointers& part : access) {
    for (int k = 0; k < in.elements; ++k) {
      with_types(in, [&](auto memory, auto slot) {
        store_lanes<decltype(memory), decltype(slot)>(part.of, stride, part.contiguous, part.mask,
                                                      k * in.element_bytes,
                                                      source(warp, in.sources[k + 1]));
      });
    }
  }
  return true;
}

bool Interpreter::atomic(Warp& warp, const Instruction& in, Mask mask) {
  const NamedAtomic& operation = atomics()[in.operation];
  const int slot = operation.bytes == 8 ? 8 : 4;
  Access access;
  if (!find_parts(warp, in, mask, true, access)) return false;
  if (checks_ && !check(warp, in, access, Touch::Atomic)) return false;
  std::uint8_t old_values[4][8 * kLanes];  // every element is read before a register changes
  for (int k = 0; k < in.elements; ++k) {
    const std::uint8_t* b = source(warp, in.sources[1 + k]);
    // Only a single element has a third operand.
    const std::uint8_t* c = in.elements > 1 || in.sources[2] == kNone ? b : source(warp, in.sources[2]);
    for (const Pointers& part : access) {
      for (Mask rest = part.mask; rest; rest &= rest - 1) {
        const int i = __builtin_ctz(rest);
        std::uint8_t* const at = part.of[i] + k * in.element_bytes;
        const std::uint64_t old = operation.run(at, lane_value(b, i, slot), lane_value(c, i, slot));
        changed_ = changed_ || std::memcmp(at, &old, in.element_bytes) != 0;  // not by a lock that is taken
        std::memcpy(old_values[k] + i * slot, &old, std::size_t(slot));
      }
    }
  }
  for (int k = 0; k < in.elements; ++k) {
    if (in.results[k] == kNone) continue;
    for (Mask rest = mask; rest; rest &= rest - 1) {
      const int at = __builtin_ctz(rest) * slot;
      std::memcpy(warp.registers + in.results[k] + at, old_values[k] + at, std::size_t(slot));
    }
  }
  return true;
}

// What the line holds afterwards is indeterminate (PTX ISA, "discard"): as if nobody had written it.
bool Interpreter::discard(Warp& warp, const Instruction& in, Mask mask) {
  const Addresses at = addresses(warp, in, 0);
  access_bytes_ = kDiscardBytes;
  Pointers lines;
  InstructionCounters* counters = std::exchange(counters_, nullptr);  // no bytes move
  const bool ok = global_pointers(warp, at, mask, true, lines);
  counters_ = counters;
  if (!ok || (checks_ && !check_discard(warp, in, at, mask))) return false;
  for (Mask rest = mask; rest; rest &= rest - 1) {
    const int lane = __builtin_ctz(rest);
    fill_with_garbage(lines.of[lane], kDiscardBytes, request_.seed + block_ * kLanes + std::uint64_t(lane));
  }
  return true;
}

// The copy is checked and counted now, and becomes visible when the thread waits for its group.
bool Interpreter::copy_async(Warp& warp, const Instruction& in, Mask mask) {
  Addresses to = addresses(warp, in, 0), from;
  std::memcpy(from.of, source(warp, in.sources[1]), sizeof from.of);
  for (std::uint64_t& address : from.of) address += std::uint64_t(in.copy_offset);
  const std::uint32_t* limit = in.sources[2] == kNone ? nullptr : lanes32(warp, in.sources[2]);
  Access read{}, written{};  // for the checks
  read.count = written.count = 1;
  Pointers &origin = read.parts[0], &target = written.parts[0];
  origin.space = Space::Global;
  target.space = Space::Shared;
  Mask reading = 0;
  for (int i = 0; i < kLanes; ++i) reading |= Mask(!limit || limit[i] > 0) << i;
  reading &= mask;
  origin.mask = reading;
  target.mask = mask;
  access_bytes_ = in.element_bytes;
  if (reading && !global_pointers(warp, from, reading, false, origin)) return false;
  InstructionCounters* counters = std::exchange(counters_, nullptr);  // one access, not two
  const bool ok = shared_pointers(warp, to, mask, target);
  counters_ = counters;
  if (!ok) return false;
  if (checks_ && reading && !check(warp, in, read, Touch::Read)) return false;
  if (checks_ && !check(warp, in, written, Touch::Copy)) return false;
  for (Mask rest = mask; rest; rest &= rest - 1) {
    const int i = __builtin_ctz(rest);
    const std::uint32_t asked = limit ? limit[i] : in.element_bytes;
    warp.copies.push_back({i, warp.committed[i], std::uint32_t(to.of[i]), from.of[i], in.element_bytes,
                           std::uint8_t(std::min<std::uint32_t>(asked, in.element_bytes))});
  }
  return true;
}

void Interpreter::copy_commit(Warp& warp, Mask mask) {
  for (Mask rest = mask; rest; rest &= rest - 1) ++warp.committed[__builtin_ctz(rest)];
}

// Waits until at most `immediate` groups are under way; a negative number waits for everything.
void Interpreter::copy_wait(Warp& warp, const Instruction& in, Mask mask) {
  std::size_t kept = 0;
  for (const PendingCopy& copy : warp.copies) {
    const std::int64_t age = std::int64_t(warp.committed[copy.lane]) - copy.group;
    const bool complete = in.immediate < 0 || age > in.immediate;
    if (!(mask >> copy.lane & 1u) || !complete) {
      warp.copies[kept++] = copy;
      continue;
    }
    std::uint8_t* to = shared_.data() + copy.to;
    std::memcpy(to, reinterpret_cast<const void*>(copy.from), copy.source_bytes);
    std::memset(to + copy.source_bytes, 0, std::size_t(copy.bytes - copy.source_bytes));
    if (checks_) complete_copy(warp, copy);
  }
  warp.copies.resize(kept);
}

}  // namespace astra
