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

// All of them at once; many know the same blocks.
Known join_all(const std::vector<const Known*>& parts) {
  Known first;
  bool same = true;
  for (const Known* part : parts) {
    if (!first) first = *part;
    same = same && (!*part || *part == first);
  }
  if (same) return first;
  std::map<std::uint32_t, std::shared_ptr<BlockKnowledge>> all;
  for (const Known* part : parts) {
    if (!*part) continue;
    for (const auto& [block, known] : **part) {
      auto& mine = all[block];
      if (!mine) mine = std::make_shared<BlockKnowledge>();
      mine->floor = std::max(mine->floor, known->floor);
      for (const auto& [thread, stamp] : known->threads) {
        Stamp& noted = mine->threads[thread];
        noted = std::max(noted, stamp);
      }
    }
  }
  return std::make_shared<Knowledge>(all.begin(), all.end());
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
  for (std::vector<Known>* kept : {&warp.more, &warp.fenced}) {
    if (kept->empty()) continue;
    std::vector<const Known*> parts;
    for (Mask rest = group; rest; rest &= rest - 1) parts.push_back(&(*kept)[std::size_t(__builtin_ctz(rest))]);
    const Known all = join_all(parts);
    for (Mask rest = group; rest; rest &= rest - 1) (*kept)[std::size_t(__builtin_ctz(rest))] = all;
  }
}

void BlockOrder::meet_all() {
  floor_ = next_++;
  std::vector<const Known*> common{&common_}, fenced{&fenced_};
  for (Warp& warp : warps_) {
    warp.now = next_;
    warp.rows.reset();
    for (const Known& more : warp.more) common.push_back(&more);
    for (const Known& each : warp.fenced) fenced.push_back(&each);
  }
  if (common.size() == 1 && fenced.size() == 1) return;
  common_ = Known(join_all(common));
  fenced_ = Known(join_all(fenced));
  for (Warp& warp : warps_) {
    warp.more.clear();
    warp.fenced.clear();
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
      if (known <= floor_) continue;
      Stamp& noted = own->threads[index * kLanes + std::uint32_t(other)];
      noted = std::max(noted, known);
    }
    if (!warp.more.empty()) all = join(all, warp.more[std::size_t(lane)]);
  }
  return join(all, std::make_shared<Knowledge>(Knowledge{{block_, own}}));
}

Stamp BlockOrder::gather(std::uint32_t index, Mask lanes, Gathered& gathered) {
  const Warp& warp = warps_[index];
  const Stamp at = event(warps_[index]);
  gathered.known = join(gathered.known, snapshot(index, lanes, at));
  for (Mask rest = warp.fenced.empty() ? 0 : lanes; rest; rest &= rest - 1)
    gathered.fenced = join(gathered.fenced, warp.fenced[std::size_t(__builtin_ctz(rest))]);
  return at;
}

void BlockOrder::tell(std::uint32_t index, Mask lanes, const Gathered& gathered) {
  Warp& warp = warps_[index];
  warp.more.resize(kLanes);
  if (gathered.fenced) warp.fenced.resize(kLanes);
  for (Mask rest = lanes; rest; rest &= rest - 1) {
    const std::size_t lane = std::size_t(__builtin_ctz(rest));
    warp.more[lane] = join(warp.more[lane], gathered.known);
    if (gathered.fenced) warp.fenced[lane] = join(warp.fenced[lane], gathered.fenced);
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
  const Known own = warp.fenced.empty() ? nullptr : warp.fenced[std::size_t(lane)];
  if (!own && !fenced_) return;
  Known& there = published[place];
  there = join(there, join(own, fenced_));
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
