#include "shadow.h"

#include <algorithm>
#include <atomic>

namespace astra {
namespace {

std::atomic<std::uint64_t> shadow_bytes{0};  // of all pages of the process

bool spend(std::uint64_t bytes) {
  if (shadow_bytes.fetch_add(bytes) + bytes <= kMostShadowBytes) return true;
  shadow_bytes.fetch_sub(bytes);
  return false;
}

std::uint64_t cells_in_page(int granule) { return kShadowPage / std::uint64_t(granule); }

}  // namespace

Shadow::~Shadow() {
  for (const auto& page : pages_)
    if (page) shadow_bytes.fetch_sub(page->cells.size() * sizeof(Cell));
}

Cell* Shadow::cells(std::uint64_t offset, int bytes, std::uint32_t launch, int& count) {
  Page* found = page(offset / kShadowPage, bytes, launch);
  if (!found) return nullptr;
  count = bytes / found->granule;
  return &found->cells[offset % kShadowPage / std::uint64_t(found->granule)];
}

Shadow::Page* Shadow::page(std::uint64_t index, int granule, std::uint32_t launch) {
  if (pages_.empty()) pages_.resize(bytes_ / kShadowPage + 1);
  std::unique_ptr<Page>& found = pages_[index];
  if (!found && !make_page(index, granule)) return nullptr;
  if (found->granule > granule) {
    const std::uint64_t more = (cells_in_page(granule) - found->cells.size()) * sizeof(Cell);
    if (!spend(more)) return nullptr;
    split(*found, granule);
  }
  if (found->launch != launch) age(*found, launch);
  return found.get();
}

// A page that is written in part has granules of one byte.
Shadow::Page* Shadow::make_page(std::uint64_t index, int granule) {
  const std::uint64_t first = index * kShadowPage, last = std::min(bytes_, first + kShadowPage);
  const bool whole = covers(first, last);
  const auto after = ranges_.lower_bound(last);
  const bool none = after == ranges_.begin() || std::prev(after)->second <= first;
  if (!whole && !none) granule = 1;
  if (!spend(cells_in_page(granule) * sizeof(Cell))) return nullptr;
  auto made = std::make_unique<Page>(Page{0, granule, {}});
  made->cells.resize(cells_in_page(granule));
  for (std::uint64_t i = 0; !none && i < made->cells.size(); ++i) {
    const std::uint64_t at = first + i * std::uint64_t(granule);
    if (whole || covers(at, at + 1)) made->cells[i].write.stamp = kWritten;
  }
  pages_[index] = std::move(made);
  return pages_[index].get();
}

void Shadow::split(Page& page, int granule) {
  const std::size_t parts = std::size_t(page.granule / granule);
  std::vector<Cell> fine;
  fine.reserve(page.cells.size() * parts);
  for (const Cell& cell : page.cells) fine.insert(fine.end(), parts, cell);
  page.cells = std::move(fine);
  page.granule = granule;
}

void Shadow::age(Page& page, std::uint32_t launch) {
  for (Cell& cell : page.cells) {
    const bool written = cell.written();
    cell = Cell{};
    if (written) cell.write.stamp = kWritten;
  }
  page.launch = launch;
}

bool Shadow::covers(std::uint64_t first, std::uint64_t last) const {
  const auto after = ranges_.upper_bound(first);
  return after != ranges_.begin() && std::prev(after)->second >= last;
}

std::uint64_t Shadow::written_until(std::uint64_t offset) const {
  const std::uint64_t index = offset / kShadowPage, next = (index + 1) * kShadowPage;
  if (index < pages_.size() && pages_[index]) {
    const Page& page = *pages_[index];
    const std::uint64_t cell = offset % kShadowPage / std::uint64_t(page.granule);
    if (!page.cells[cell].written()) return offset;
    return index * kShadowPage + (cell + 1) * std::uint64_t(page.granule);
  }
  const auto after = ranges_.upper_bound(offset);
  if (after == ranges_.begin() || std::prev(after)->second <= offset) return offset;
  return pages_.empty() ? std::prev(after)->second : std::min(std::prev(after)->second, next);
}

void Shadow::wrote(std::uint64_t offset, std::uint64_t bytes) {
  if (!bytes) return;
  std::uint64_t start = offset, end = offset + bytes;
  auto next = ranges_.upper_bound(start);
  if (next != ranges_.begin() && std::prev(next)->second >= start) next = std::prev(next);
  while (next != ranges_.end() && next->first <= end) {
    start = std::min(start, next->first);
    end = std::max(end, next->second);
    next = ranges_.erase(next);
  }
  ranges_[start] = end;
  for (std::uint64_t index = offset / kShadowPage; index < pages_.size(); ++index) {
    const std::uint64_t first = index * kShadowPage;
    if (first >= offset + bytes) break;
    Page* page = pages_[index].get();
    if (!page) continue;
    const std::uint64_t from = std::max(offset, first) - first;
    const std::uint64_t to = std::min(offset + bytes, first + kShadowPage) - first;
    int granule = page->granule;
    while ((from | to) % std::uint64_t(granule)) granule /= 2;
    if (granule < page->granule) split(*page, granule);
    for (std::uint64_t i = from / std::uint64_t(granule); i < to / std::uint64_t(granule); ++i) {
      page->cells[i] = Cell{};
      page->cells[i].write.stamp = kWritten;
    }
  }
}

void Shadow::copied(std::uint64_t offset, const Shadow& from, std::uint64_t from_offset,
                    std::uint64_t bytes) {
  for (std::uint64_t i = 0; i < bytes;) {
    const std::uint64_t end = std::min(bytes, from.written_until(from_offset + i) - from_offset);
    wrote(offset + i, end - i);
    i = std::max(end, i + 1);
  }
}

void Shadow::forget() {
  ranges_.clear();
  for (const auto& page : pages_)
    if (page) std::fill(page->cells.begin(), page->cells.end(), Cell{});
}

}  // namespace astra
