// Exchange between the lanes of a warp: shfl, vote, match, redux, elect.
#include "interpreter.h"

namespace astra {
namespace {

// The orders are those of `encoding.py`.
enum ShuffleMode { kUp, kDown, kButterfly, kIndex };
enum VoteMode { kAll, kAny, kUniform, kBallot };
enum MatchMode { kMatchAny, kMatchAll };
enum ReduceMode { kAddU, kMinU, kMaxU, kMinS, kMaxS, kAnd, kOr, kXor };

std::uint32_t combine(int mode, std::uint32_t a, std::uint32_t b) {
  const std::int32_t sa = std::int32_t(a), sb = std::int32_t(b);
  switch (mode) {
    case kAddU: return a + b;
    case kMinU: return a < b ? a : b;
    case kMaxU: return a > b ? a : b;
    case kMinS: return sa < sb ? a : b;
    case kMaxS: return sa > sb ? a : b;
    case kAnd: return a & b;
    case kOr: return a | b;
    default: return a ^ b;
  }
}

}  // namespace

// PTX ISA, "shfl.sync": c packs the clamp (bits 0-4) and the segment mask (bits 8-12).
void Interpreter::shuffle(Warp& warp, const Instruction& in, Mask mask) {
  const std::uint32_t* values = lanes32(warp, in.sources[0]);
  const std::uint32_t* distance = lanes32(warp, in.sources[1]);
  const std::uint32_t* control = lanes32(warp, in.sources[2]);
  std::uint32_t out[kLanes];
  Mask in_range = 0;
  for (int lane = 0; lane < kLanes; ++lane) {
    const int b = int(distance[lane] & 31u);
    const int clamp = int(control[lane] & 31u), segment = int(control[lane] >> 8 & 31u);
    const int highest = (lane & segment) | (clamp & ~segment);
    int from = lane;
    bool ok = false;
    switch (in.mode) {
      case kUp: from = lane - b; ok = from >= highest; break;
      case kDown: from = lane + b; ok = from <= highest; break;
      case kButterfly: from = lane ^ b; ok = from <= highest; break;
      default: from = (lane & segment) | (b & ~segment); ok = from <= highest; break;
    }
    out[lane] = values[ok ? from : lane];
    if (checks_ && ok && mask >> lane & ~mask >> from & 1u) {
      fail(FaultKind::AbsentLane, warp, lane, std::uint64_t(from), 0);
      return;
    }
    in_range |= Mask(ok) << lane;
  }
  write32(warp, in.results[0], mask, out);
  write_predicate(warp, in.results[1], mask, in_range);
}

void Interpreter::vote(Warp& warp, const Instruction& in, Mask mask) {
  Mask values = *reinterpret_cast<const Mask*>(source(warp, in.sources[0]));
  const Mask ballot = values & mask;
  if (in.mode == kBallot) {
    std::uint32_t out[kLanes];
    for (std::uint32_t& value : out) value = ballot;
    return write32(warp, in.results[0], mask, out);
  }
  bool holds = in.mode == kAll   ? ballot == mask
               : in.mode == kAny ? ballot != 0
                                 : ballot == 0 || ballot == mask;
  write_predicate(warp, in.results[0], mask, holds ? ~Mask(0) : 0);
}

void Interpreter::match(Warp& warp, const Instruction& in, Mask mask) {
  std::uint64_t values[kLanes];
  const std::uint8_t* from = source(warp, in.sources[0]);
  for (int i = 0; i < kLanes; ++i) {
    std::uint32_t narrow;
    std::memcpy(&narrow, from + 4 * i, 4);
    values[i] = narrow;
    if (in.element_bytes == 8) std::memcpy(&values[i], from + 8 * i, 8);
  }
  std::uint32_t out[kLanes] = {};
  for (int i = 0; i < kLanes; ++i)
    for (int j = 0; j < kLanes; ++j)
      out[i] |= std::uint32_t(mask >> j & 1u && values[i] == values[j]) << j;
  if (in.mode == kMatchAll) {
    const bool all = out[__builtin_ctz(mask)] == mask;
    for (std::uint32_t& value : out) value = all ? mask : 0;
    write_predicate(warp, in.results[1], mask, all ? ~Mask(0) : 0);
  }
  write32(warp, in.results[0], mask, out);
}

void Interpreter::reduce(Warp& warp, const Instruction& in, Mask mask) {
  const std::uint32_t* values = lanes32(warp, in.sources[0]);
  std::uint32_t total = values[__builtin_ctz(mask)];
  for (Mask rest = mask & (mask - 1); rest; rest &= rest - 1)
    total = combine(in.mode, total, values[__builtin_ctz(rest)]);
  std::uint32_t out[kLanes];
  for (std::uint32_t& value : out) value = total;
  write32(warp, in.results[0], mask, out);
}

void Interpreter::elect(Warp& warp, const Instruction& in, Mask mask) {
  const std::uint32_t leader = std::uint32_t(__builtin_ctz(mask));
  std::uint32_t out[kLanes];
  for (std::uint32_t& value : out) value = leader;
  write32(warp, in.results[0], mask, out);
  write_predicate(warp, in.results[1], mask, Mask(1) << leader);
}

}  // namespace astra
