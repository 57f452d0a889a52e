// Global memory: every allocation has its exact size and unmapped gaps around it.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "shadow.h"

namespace astra {

constexpr int kSectorBytes = 32;
// Memory is dealt to the slices of L2 in stretches of this size: what the time model takes (timemodel.py).
constexpr int kStretchBytes = 256;

// Which 32-byte sectors of an allocation a launch touched: one byte a sector, so that threads can
// mark without reading first.
class SectorMap {
 public:
  explicit SectorMap(std::uint64_t sectors)
      : marks_(std::make_unique<std::atomic<std::uint8_t>[]>(sectors)), sectors_(sectors) {}
  void clear();
  void mark(std::uint64_t first, std::uint64_t last) {
    for (std::uint64_t i = first; i <= last; ++i) marks_[i].store(1, std::memory_order_relaxed);
  }
  std::uint64_t marked() const;

 private:
  std::unique_ptr<std::atomic<std::uint8_t>[]> marks_;
  std::uint64_t sectors_;
};

// How many passes of atomic operations each stretch of an allocation had.
class PassCounts {
 public:
  explicit PassCounts(std::uint64_t stretches)
      : passes_(std::make_unique<std::atomic<std::uint32_t>[]>(stretches)), stretches_(stretches) {}
  void clear();
  void add(std::uint64_t stretch, int passes) {
    passes_[stretch].fetch_add(std::uint32_t(passes), std::memory_order_relaxed);
  }
  std::uint64_t most() const;

 private:
  std::unique_ptr<std::atomic<std::uint32_t>[]> passes_;
  std::uint64_t stretches_;
};

// Where an allocation is and who may access it: the device only, the host's memory, or both by turns.
enum class Home { Device, Host, Managed };

struct Allocation {
  std::uint64_t address;
  std::uint64_t bytes;
  std::string name;
  bool counted;  // false for the simulator's own, such as parameters
  Home home;
  std::atomic<bool> touched{false};  // by the present launch
  std::unique_ptr<SectorMap> read, written;  // made when first touched by a counted launch
  std::unique_ptr<PassCounts> atomics;
  std::unique_ptr<Shadow> shadow;

  bool holds(std::uint64_t first, std::uint64_t size) const {
    return first - address < bytes && size <= bytes - (first - address);
  }
};

// The allocations of one device. Changed between launches only; launches read it without locks.
class DeviceMemory {
 public:
  ~DeviceMemory();
  // Returns 0 when the host has no memory left.
  std::uint64_t allocate(std::uint64_t bytes, const std::string& name, bool counted, Home home = Home::Device);
  bool release(std::uint64_t address);
  // Bytes of all allocations with this home.
  std::uint64_t in_use(Home home) const;
  // The allocation that holds `address`, or null.
  Allocation* find(std::uint64_t address) const;
  // The allocation whose start or end is nearest, to explain a fault; null when there is none.
  const Allocation* nearest(std::uint64_t address) const;
  // Forgets which sectors were touched; `count` also makes room to note them.
  void begin_launch(bool count);
  // Notes for the checks that bytes were written by somebody else than a kernel, or copied.
  void note_written(std::uint64_t address, std::uint64_t bytes);
  void note_copied(std::uint64_t to, std::uint64_t from, std::uint64_t bytes);
  // After a launch without checks: all that it touched counts as written.
  void end_unchecked_launch();
  std::uint64_t bytes_read() const;
  std::uint64_t bytes_written() const;
  std::uint64_t busiest_atomic_passes() const;

 private:
  std::map<std::uint64_t, std::unique_ptr<Allocation>> allocations_;
  std::uint64_t in_use_[3] = {};  // by home
  mutable std::mutex mutex_;
};

DeviceMemory& device_memory();

}  // namespace astra
