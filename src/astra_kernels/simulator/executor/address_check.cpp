// From the addresses of an access to host pointers: which space, in bounds, aligned, and its cost.
#include <algorithm>

#include "atomics.h"
#include "interpreter.h"

namespace astra {
namespace {

Space window(std::uint64_t address) {
  if (address >> 60 == kSharedWindow >> 60) return Space::Shared;
  if (address >> 60 == kLocalWindow >> 60) return Space::Local;
  return Space::Global;
}

std::uint64_t window_start(Space space) {
  return space == Space::Shared ? kSharedWindow : space == Space::Local ? kLocalWindow : 0;
}

// The first active lane whose address is not a multiple of the (power of two) access size, or -1.
int misaligned_lane(const Addresses& at, Mask mask, int bytes) {
  const std::uint64_t low = std::uint64_t(bytes) - 1;
  Mask bad = 0;
  for (int i = 0; i < kLanes; ++i) bad |= Mask((at.of[i] & low) != 0) << i;
  bad &= mask;
  return bad ? __builtin_ctz(bad) : -1;
}

// The first active lane whose access does not lie in [start, start + size), or -1.
int outside_lane(const Addresses& at, Mask mask, std::uint64_t start, std::uint64_t size, int bytes) {
  if (size < std::uint64_t(bytes)) return mask ? __builtin_ctz(mask) : -1;
  const std::uint64_t last = size - std::uint64_t(bytes);
  Mask bad = 0;
  for (int i = 0; i < kLanes; ++i) bad |= Mask(at.of[i] - start > last) << i;
  bad &= mask;
  return bad ? __builtin_ctz(bad) : -1;
}

}  // namespace

Addresses Interpreter::addresses(const Warp& warp, const Instruction& in, int which) const {
  Addresses out;
  const std::uint8_t* from = source(warp, in.sources[which]);
  if (in.address_bytes == 8) {
    std::memcpy(out.of, from, sizeof out.of);
    for (std::uint64_t& address : out.of) address += std::uint64_t(in.immediate);
  } else {
    const std::uint32_t* narrow = reinterpret_cast<const std::uint32_t*>(from);
    for (int i = 0; i < kLanes; ++i) out.of[i] = std::uint32_t(narrow[i] + std::uint32_t(in.immediate));
  }
  return out;
}

bool Interpreter::resolve(Warp& warp, Space space, const Addresses& at, Mask mask, bool writes,
                          Pointers& pointers) {
  pointers.mask = mask;
  pointers.space = space;
  pointers.contiguous = false;
  if (space == Space::Shared) return shared_pointers(warp, at, mask, pointers);
  if (space == Space::Local) return local_pointers(warp, at, mask, pointers);
  return global_pointers(warp, at, mask, writes, pointers);
}

bool Interpreter::global_pointers(Warp& warp, const Addresses& at, Mask mask, bool writes,
                                  Pointers& pointers) {
  const int bytes = access_bytes_;
  int lane = misaligned_lane(at, mask, bytes);
  if (lane >= 0) return fail(FaultKind::GlobalMisaligned, warp, lane, at.of[lane], bytes);
  Allocation*& recent = recent_[std::size_t(pc_)];
  const std::uint64_t first = at.of[__builtin_ctz(mask)];
  if (!recent || !recent->holds(first, std::uint64_t(bytes))) {
    recent = device_memory().find(first);
    if (!recent) return fail(FaultKind::GlobalBounds, warp, __builtin_ctz(mask), first, bytes);
    recent->touched = true;
  }
  allocation_ = recent;
  if (outside_lane(at, mask, recent->address, recent->bytes, bytes) >= 0) {
    allocation_ = nullptr;  // lanes may be in several allocations
    for (Mask rest = mask; rest; rest &= rest - 1) {
      const int each = __builtin_ctz(rest);
      Allocation* holder = device_memory().find(at.of[each]);
      if (!holder || !holder->holds(at.of[each], std::uint64_t(bytes)))
        return fail(FaultKind::GlobalBounds, warp, each, at.of[each], bytes);
      holder->touched = true;
    }
  }
  if ((mask & ~warp.waited) && too_early(warp, at, mask & ~warp.waited, writes)) return false;
  for (int i = 0; i < kLanes; ++i) pointers.of[i] = reinterpret_cast<std::uint8_t*>(at.of[i]);
  pointers.contiguous = is_contiguous(at, mask, bytes);
  const bool repeated = request_.code[pc_].counted_bytes == kMerged;
  if (counters_ && !repeated && (!allocation_ || allocation_->counted)) {
    InstructionCounters& counters = counters_[pc_];
    ++counters.global_requests;
    if (pointers.contiguous) {
      const std::uint64_t last = at.of[kLanes - 1] + std::uint64_t(bytes) - 1;
      counters.sectors += (last >> 5) - (first >> 5) + 1;
      counters.lines += (last >> 7) - (first >> 7) + 1;
    } else {
      const Touched touched = count_touched(at, mask, bytes);
      counters.sectors += std::uint64_t(touched.sectors);
      counters.lines += std::uint64_t(touched.lines);
    }
    mark_sectors(at, mask, writes, pointers.contiguous);
    if (request_.code[pc_].handler == Handler::atomic || request_.code[pc_].handler == Handler::polling_atomic)
      count_atomic_passes(at, mask);
  }
  return true;
}

// Lanes that change the same address take turns; those of a sector that change different ones go together.
void Interpreter::count_atomic_passes(const Addresses& at, Mask mask) {
  const std::uint64_t first = at.of[__builtin_ctz(mask)];
  bool same = true;
  for (Mask rest = mask; rest; rest &= rest - 1) same = same && at.of[__builtin_ctz(rest)] == first;
  if (same && atomics()[request_.code[pc_].operation].combines()) mask &= -mask;
  std::uint64_t sectors[kLanes];
  int passes[kLanes] = {}, count = 0;
  for (Mask rest = mask; rest; rest &= rest - 1) {
    const int lane = __builtin_ctz(rest);
    int turn = 1;
    for (Mask before = mask & ((Mask(1) << lane) - 1); before; before &= before - 1)
      turn += at.of[__builtin_ctz(before)] == at.of[lane];
    const std::uint64_t sector = at.of[lane] / kSectorBytes;
    const int place = int(std::find(sectors, sectors + count, sector) - sectors);
    if (place == count) sectors[count++] = sector;
    passes[place] = std::max(passes[place], turn);
  }
  for (int i = 0; i < count; ++i) {
    const std::uint64_t address = sectors[i] * kSectorBytes;
    Allocation* holder = allocation_ ? allocation_ : device_memory().find(address);
    if (!holder || !holder->atomics) continue;
    counters_[pc_].atomic_passes += std::uint64_t(passes[i]);
    const std::uint64_t inside = address > holder->address ? address - holder->address : 0;
    holder->atomics->add(inside / kStretchBytes, passes[i]);
  }
}

// In a launch that may overlap the kernel before it, memory is that kernel's until the thread has waited for
// it, or has met one that has. Nobody can know here what that kernel reads and writes, so every access counts;
// parameters and constants, which no kernel writes, do not.
bool Interpreter::too_early(Warp& warp, const Addresses& at, Mask mask, bool writes) {
  for (; mask; mask &= mask - 1) {
    const int lane = __builtin_ctz(mask);
    const Allocation* holder = allocation_ ? allocation_ : device_memory().find(at.of[lane]);
    if (!holder->counted) continue;
    fail(writes ? FaultKind::EarlyWrite : FaultKind::EarlyRead, warp, lane, at.of[lane], access_bytes_);
    return true;
  }
  return false;
}

void Interpreter::mark_sectors(const Addresses& at, Mask mask, bool writes, bool contiguous) {
  auto mark = [&](Allocation& allocation, std::uint64_t first, std::uint64_t last) {
    SectorMap* map = writes ? allocation.written.get() : allocation.read.get();
    if (map) map->mark((first - allocation.address) >> 5, (last - allocation.address) >> 5);
  };
  const std::uint64_t extent = std::uint64_t(access_bytes_) - 1;
  if (contiguous && allocation_) return mark(*allocation_, at.of[0], at.of[kLanes - 1] + extent);
  for (Mask rest = mask; rest; rest &= rest - 1) {
    const std::uint64_t address = at.of[__builtin_ctz(rest)];
    Allocation* holder = allocation_ ? allocation_ : device_memory().find(address);
    mark(*holder, address, address + extent);
  }
}

bool Interpreter::shared_pointers(Warp& warp, const Addresses& at, Mask mask, Pointers& pointers) {
  const int bytes = access_bytes_;
  int lane = misaligned_lane(at, mask, bytes);
  if (lane >= 0) return fail(FaultKind::SharedMisaligned, warp, lane, at.of[lane], bytes);
  lane = outside_lane(at, mask, 0, shared_.size(), bytes);
  if (lane >= 0) return fail(FaultKind::SharedBounds, warp, lane, at.of[lane], bytes);
  for (int i = 0; i < kLanes; ++i) pointers.of[i] = shared_.data() + at.of[i];
  pointers.contiguous = is_contiguous(at, mask, bytes);
  if (counters_) count_shared(at, mask, pointers.contiguous);
  return true;
}

void Interpreter::count_shared(const Addresses& at, Mask mask, bool contiguous) {
  const Instruction& in = request_.code[pc_];
  const std::uint8_t merged = in.counted_bytes;
  if (merged == kMerged) return;
  InstructionCounters& counters = counters_[pc_];
  if (in.handler == Handler::load_matrices || in.handler == Handler::store_matrices) {
    ++counters.shared_requests;
    counters.wavefronts += std::uint64_t(count_row_wavefronts(at, mask));
    return;
  }
  const int bytes = merged ? merged : access_bytes_;
  int wavefronts = 0, requests = 1;
  if (merged && misaligned_lane(at, mask, merged) >= 0) {
    requests = merged / access_bytes_;
    wavefronts = count_wavefronts(at, mask, access_bytes_) * requests;
  } else {
    const int words = bytes > 4 ? bytes / 4 : 1;
    wavefronts = contiguous && !merged ? words : count_wavefronts(at, mask, bytes);
  }
  counters.shared_requests += std::uint64_t(requests);
  counters.wavefronts += std::uint64_t(wavefronts);
}

bool Interpreter::local_pointers(Warp& warp, const Addresses& at, Mask mask, Pointers& pointers) {
  const int bytes = access_bytes_;
  int lane = misaligned_lane(at, mask, bytes);
  if (lane >= 0) return fail(FaultKind::LocalMisaligned, warp, lane, at.of[lane], bytes);
  const std::uint64_t size = std::uint64_t(request_.local_bytes);
  lane = outside_lane(at, mask, 0, size, bytes);
  if (lane >= 0) return fail(FaultKind::LocalBounds, warp, lane, at.of[lane], bytes);
  for (int i = 0; i < kLanes; ++i) pointers.of[i] = warp.local + std::uint64_t(i) * size + at.of[i];
  if (counters_ && request_.code[pc_].counted_bytes != kMerged) ++counters_[pc_].local_requests;
  return true;
}

bool Interpreter::find_parts(Warp& warp, const Instruction& in, Mask mask, bool writes,
                             Access& access) {
  Addresses at = addresses(warp, in, 0);
  access_bytes_ = in.element_bytes * in.elements;
  if (in.space != Space::Generic)
    return resolve(warp, in.space, at, mask, writes, access.parts[access.count++]);
  for (Space space : {Space::Global, Space::Shared, Space::Local}) {
    Mask here = 0;
    for (int i = 0; i < kLanes; ++i) here |= Mask(window(at.of[i]) == space) << i;
    here &= mask;
    if (!here) continue;
    Addresses inside;
    for (int i = 0; i < kLanes; ++i) inside.of[i] = at.of[i] - window_start(space);
    if (!resolve(warp, space, inside, here, writes, access.parts[access.count++])) return false;
  }
  return true;
}

}  // namespace astra
