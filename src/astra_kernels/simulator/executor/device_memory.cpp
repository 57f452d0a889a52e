#include "device_memory.h"

#include <sys/mman.h>

namespace astra {
namespace {

constexpr std::uint64_t kPage = 4096;
constexpr std::uint64_t kLargest = 1ull << 46;
constexpr std::uint64_t kGap = 1 << 20;  // larger than any index that is off by a row

std::uint64_t mapped_bytes(std::uint64_t bytes) {
  return (bytes + kPage - 1) / kPage * kPage + 2 * kGap;
}

}  // namespace

void SectorMap::clear() {
  for (std::uint64_t i = 0; i < sectors_; ++i) marks_[i].store(0, std::memory_order_relaxed);
}

std::uint64_t SectorMap::marked() const {
  std::uint64_t total = 0;
  for (std::uint64_t i = 0; i < sectors_; ++i) total += marks_[i].load(std::memory_order_relaxed);
  return total;
}

void PassCounts::clear() {
  for (std::uint64_t i = 0; i < stretches_; ++i) passes_[i].store(0, std::memory_order_relaxed);
}

std::uint64_t PassCounts::most() const {
  std::uint32_t most = 0;
  for (std::uint64_t i = 0; i < stretches_; ++i) most = std::max(most, passes_[i].load(std::memory_order_relaxed));
  return most;
}

DeviceMemory::~DeviceMemory() {
  for (auto& [address, allocation] : allocations_)
    munmap(reinterpret_cast<void*>(address - kGap), mapped_bytes(allocation->bytes));
}

std::uint64_t DeviceMemory::allocate(std::uint64_t bytes, const std::string& name, bool counted,
                                     Home home) {
  if (bytes > kLargest) return 0;  // sums with it would overflow
  std::uint64_t mapped = mapped_bytes(bytes);
  void* base = mmap(nullptr, mapped, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (base == MAP_FAILED) return 0;
  std::uint64_t address = reinterpret_cast<std::uint64_t>(base) + kGap;
  void* usable = reinterpret_cast<void*>(address);
  if (bytes && mprotect(usable, mapped - 2 * kGap, PROT_READ | PROT_WRITE) != 0) {
    munmap(base, mapped);
    return 0;
  }
  auto allocation = std::make_unique<Allocation>();
  allocation->address = address;
  allocation->bytes = bytes;
  allocation->name = name;
  allocation->counted = counted;
  allocation->home = home;
  allocation->shadow = std::make_unique<Shadow>(bytes);
  std::lock_guard lock(mutex_);
  // The host may write to it without a call.
  if (home != Home::Device) allocation->shadow->wrote(0, bytes);
  allocations_[address] = std::move(allocation);
  in_use_[int(home)] += bytes;
  return address;
}

bool DeviceMemory::release(std::uint64_t address) {
  std::lock_guard lock(mutex_);
  auto found = allocations_.find(address);
  if (found == allocations_.end()) return false;
  munmap(reinterpret_cast<void*>(address - kGap), mapped_bytes(found->second->bytes));
  in_use_[int(found->second->home)] -= found->second->bytes;
  allocations_.erase(found);
  return true;
}

std::uint64_t DeviceMemory::in_use(Home home) const {
  std::lock_guard lock(mutex_);
  return in_use_[int(home)];
}

Allocation* DeviceMemory::find(std::uint64_t address) const {
  auto after = allocations_.upper_bound(address);
  if (after == allocations_.begin()) return nullptr;
  Allocation* before = std::prev(after)->second.get();
  return address - before->address < before->bytes ? before : nullptr;
}

const Allocation* DeviceMemory::nearest(std::uint64_t address) const {
  if (allocations_.empty()) return nullptr;
  auto after = allocations_.upper_bound(address);
  if (after == allocations_.begin()) return after->second.get();
  const Allocation* before = std::prev(after)->second.get();
  if (after == allocations_.end() || address - before->address < before->bytes) return before;
  std::uint64_t past = address - (before->address + before->bytes);
  return past <= after->first - address ? before : after->second.get();
}

void DeviceMemory::begin_launch(bool count) {
  for (auto& [address, allocation] : allocations_) {
    std::uint64_t sectors = (allocation->bytes + kSectorBytes - 1) / kSectorBytes;
    if (!allocation->counted) continue;
    if (count && !allocation->read) {
      allocation->read = std::make_unique<SectorMap>(sectors);
      allocation->written = std::make_unique<SectorMap>(sectors);
      allocation->atomics = std::make_unique<PassCounts>((allocation->bytes + kStretchBytes - 1) / kStretchBytes);
    } else if (allocation->read && allocation->touched) {
      allocation->read->clear();
      allocation->written->clear();
      allocation->atomics->clear();
    }
    allocation->touched = false;
  }
}

void DeviceMemory::note_written(std::uint64_t address, std::uint64_t bytes) {
  if (Allocation* holder = find(address)) holder->shadow->wrote(address - holder->address, bytes);
}

void DeviceMemory::note_copied(std::uint64_t to, std::uint64_t from, std::uint64_t bytes) {
  Allocation *target = find(to), *origin = find(from);
  if (!target) return;
  if (!origin) return target->shadow->wrote(to - target->address, bytes);
  target->shadow->copied(to - target->address, *origin->shadow, from - origin->address, bytes);
}

void DeviceMemory::end_unchecked_launch() {
  for (auto& [address, allocation] : allocations_)
    if (allocation->touched) allocation->shadow->wrote(0, allocation->bytes);
}

std::uint64_t DeviceMemory::bytes_read() const {
  std::uint64_t total = 0;
  for (auto& [address, allocation] : allocations_)
    if (allocation->read && allocation->touched) total += allocation->read->marked();
  return total * kSectorBytes;
}

std::uint64_t DeviceMemory::bytes_written() const {
  std::uint64_t total = 0;
  for (auto& [address, allocation] : allocations_)
    if (allocation->written && allocation->touched) total += allocation->written->marked();
  return total * kSectorBytes;
}

std::uint64_t DeviceMemory::busiest_atomic_passes() const {
  std::uint64_t most = 0;
  for (auto& [address, allocation] : allocations_)
    if (allocation->atomics && allocation->touched) most = std::max(most, allocation->atomics->most());
  return most;
}

// A process of the CUDA runtime has one device here, as its interface has no handle for it.
DeviceMemory& device_memory() {
  static DeviceMemory memory;
  return memory;
}

}  // namespace astra
