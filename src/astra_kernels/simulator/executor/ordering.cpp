#include "ordering.h"

#include <algorithm>

namespace astra {
namespace {

std::shared_ptr<const BlockKnowledge> join(const std::shared_ptr<const BlockKnowledge>& a,
                                           const std::shared_ptr<const BlockKnowledge>& b) {
  if (a == b) return a;
  auto both = std::make_shared<BlockKnowledge>(*a);
  both->floor = std::max(a->floor, b->floor);
  for (const auto& [thread, stamp] : b->threads) {
    Stamp& known = both->threads[thread];
    known = std::max(known, stamp);
  }
  return both;
}

bool holds(const Known& known, std::uint32_t block, std::uint32_t thread, Stamp stamp) {
  if (!known) return false;
  const auto found = known->find(block);
  if (found == known->end()) return false;
  if (stamp <= found->second->floor) return true;
  const auto further = found->second->threads.find(thread);
  return further != found->second->threads.end() && stamp <= further->second;
}

}  // namespace

Known join(const Known& a, const Known& b) {
  if (a == b || !b) return a;
  if (!a) return b;
  auto both = std::make_shared<Knowledge>(*a);
  for (const auto& [block, known] : *b) {
    auto& mine = (*both)[block];
    mine = mine ? join(mine, known) : known;
  }
  return both;
}

BlockOrder::BlockOrder(std::uint32_t block, const std::vector<Mask>& lanes)
    : block_(block), warps_(lanes.size()) {
  for (std::size_t i = 0; i < lanes.size(); ++i) warps_[i].lanes = lanes[i];
}

// What the warp does from now on has a later stamp than the event.
Stamp BlockOrder::event(Warp& warp) {
  const Stamp at = next_++;
  warp.now = next_;
  return at;
}

Stamp BlockOrder::knows_lane(const Warp& warp, int lane, int other) const {
  const Stamp apart = warp.rows ? warp.rows->of[lane][other] : 0;
  return std::max({floor_, warp.floor, apart});
}

bool BlockOrder::knows(std::uint32_t index, int lane, std::uint32_t block, std::uint32_t thread,
                       Stamp stamp) const {
  const Warp& warp = warps_[index];
  if (block == block_) {
    if (stamp <= floor_) return true;
    if (thread / kLanes == index && stamp <= knows_lane(warp, lane, int(thread % kLanes))) return true;
  }
  return holds(common_, block, thread, stamp) ||
         (!warp.more.empty() && holds(warp.more[std::size_t(lane)], block, thread, stamp));
}

bool BlockOrder::unordered(std::uint32_t warp, Mask mine, const Track& track, int& lane,
                           int& other) const {
  const bool same_warp = track.block == block_ && track.warp == warp;
  if (track.block == block_ && track.stamp <= floor_) return false;
  if (same_warp && track.stamp <= warps_[warp].floor) return false;
  for (Mask left = mine; left; left &= left - 1) {
    lane = __builtin_ctz(left);
    for (Mask rest = track.lanes; rest; rest &= rest - 1) {
      other = __builtin_ctz(rest);
      if (same_warp && lane == other) continue;
      const std::uint32_t thread = track.warp * kLanes + std::uint32_t(other);
      if (!knows(warp, lane, track.block, thread, track.stamp)) return true;
    }
  }
  return false;
}

void BlockOrder::meet(std::uint32_t index, Mask group) {
  Warp& warp = warps_[index];
  const Stamp at = event(warp);
  if (group == warp.lanes) {
    warp.floor = at;
    warp.rows.reset();
  } else {
    Stamp known[kLanes];
    for (int other = 0; other < kLanes; ++other) {
      known[other] = 0;
      for (Mask rest = group; rest; rest &= rest - 1)
        known[other] = std::max(known[other], knows_lane(warp, __builtin_ctz(rest), other));
      if (group >> other & 1u) known[other] = at;
    }
    if (!warp.rows) warp.rows = std::make_unique<Rows>();
    for (Mask rest = group; rest; rest &= rest - 1)
      std::copy(known, known + kLanes, warp.rows->of[__builtin_ctz(rest)]);
  }
  if (warp.more.empty()) return;
  Known all;
  for (Mask rest = group; rest; rest &= rest - 1) all = join(all, warp.more[std::size_t(__builtin_ctz(rest))]);
  for (Mask rest = group; rest; rest &= rest - 1) warp.more[std::size_t(__builtin_ctz(rest))] = all;
}

void BlockOrder::meet_all() {
  floor_ = next_++;
  for (Warp& warp : warps_) {
    warp.now = next_;
    for (const Known& more : warp.more) common_ = join(common_, more);
    warp.more.clear();
    warp.rows.reset();
  }
}

Known BlockOrder::snapshot(std::uint32_t index, Mask lanes, Stamp now) const {
  const Warp& warp = warps_[index];
  auto own = std::make_shared<BlockKnowledge>();
  own->floor = floor_;
  Known all = common_;
  for (Mask rest = lanes; rest; rest &= rest - 1) {
    const int lane = __builtin_ctz(rest);
    for (int other = 0; other < kLanes; ++other) {
      const Stamp known = lanes >> other & 1u ? now : knows_lane(warp, lane, other);
      Stamp& noted = own->threads[index * kLanes + std::uint32_t(other)];
      noted = std::max(noted, known);
    }
    if (!warp.more.empty()) all = join(all, warp.more[std::size_t(lane)]);
  }
  return join(all, std::make_shared<Knowledge>(Knowledge{{block_, own}}));
}

void BlockOrder::gather(std::uint32_t index, Mask lanes, Known& gathered) {
  const Stamp at = event(warps_[index]);
  gathered = join(gathered, snapshot(index, lanes, at));
}

void BlockOrder::tell(std::uint32_t index, Mask lanes, const Known& gathered) {
  Warp& warp = warps_[index];
  warp.more.resize(kLanes);
  for (Mask rest = lanes; rest; rest &= rest - 1) {
    Known& more = warp.more[std::size_t(__builtin_ctz(rest))];
    more = join(more, gathered);
  }
}

void BlockOrder::fence(std::uint32_t index, Mask lanes) {
  Warp& warp = warps_[index];
  const Stamp at = event(warp);
  warp.fenced.resize(kLanes);
  for (Mask rest = lanes; rest; rest &= rest - 1) {
    const int lane = __builtin_ctz(rest);
    warp.fenced[std::size_t(lane)] = snapshot(index, Mask(1) << lane, at);
  }
}

void BlockOrder::publish(std::uint32_t index, int lane, std::uint64_t place, Published& published) {
  const Warp& warp = warps_[index];
  if (warp.fenced.empty() || !warp.fenced[std::size_t(lane)]) return;
  Known& there = published[place];
  there = join(there, warp.fenced[std::size_t(lane)]);
}

void BlockOrder::acquire(std::uint32_t index, int lane, std::uint64_t place,
                         const Published& published) {
  if (published.empty()) return;
  const auto found = published.find(place);
  if (found == published.end()) return;
  Warp& warp = warps_[index];
  warp.acquired.resize(kLanes);
  if (warp.acquired[std::size_t(lane)] == found->second) return;
  warp.acquired[std::size_t(lane)] = found->second;
  warp.more.resize(kLanes);
  Known& more = warp.more[std::size_t(lane)];
  more = join(more, found->second);
}

}  // namespace astra
