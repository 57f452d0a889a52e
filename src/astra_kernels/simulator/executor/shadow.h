// What is remembered of every byte for the checks: who wrote it last, and who read it since.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "formats.h"

namespace astra {

// Counts a block's synchronising events (ordering.h).
using Stamp = std::uint32_t;
constexpr Stamp kWritten = 1;                // of bytes that no thread of the present launch wrote
constexpr Stamp kUnderWay = ~Stamp(0);       // of an asynchronous copy that nobody has waited for
constexpr std::uint64_t kShadowPage = 1024;  // bytes that share a granule
constexpr std::uint64_t kMostShadowBytes = 2ull << 30;

// One access by lanes of one warp. Without lanes it stands for the host or an earlier launch.
struct Track {
  std::uint32_t block;
  Stamp stamp;
  Mask lanes;
  std::uint32_t pc : 24;
  std::uint32_t warp : 5;
  std::uint32_t strong : 1;    // an atomic, or an access that other threads may make at the same time
  std::uint32_t relaxed_by_volatile : 1;  // strong only because it is volatile
  std::uint32_t discarded : 1;            // a write of no value
};

constexpr int kReaders = 2;

// Of one granule. Of readers that nothing orders, two are kept.
struct Cell {
  Track write;   // no lanes and stamp 0: never written
  Track strong;  // the last strong write after that one
  Track reads[kReaders];
  bool written() const { return strong.lanes || ((write.lanes || write.stamp) && !write.discarded); }
};
static_assert(sizeof(Cell) == 64);

// The cells of one allocation, or of a block's shared memory. A page starts with granules as wide as its first
// access, and splits when a narrower one comes.
class Shadow {
 public:
  explicit Shadow(std::uint64_t bytes) : bytes_(bytes) {}
  ~Shadow();
  Shadow(const Shadow&) = delete;
  Shadow& operator=(const Shadow&) = delete;

  // The cells of an access that is aligned to its size (a power of two, 16 at most), and how many there are.
  // What earlier launches did to them is behind a barrier. Null when the shadow's memory is spent.
  Cell* cells(std::uint64_t offset, int bytes, std::uint32_t launch, int& count);
  // Notes that somebody outside of a checked launch wrote these bytes.
  void wrote(std::uint64_t offset, std::uint64_t bytes);
  // The same where bytes that nobody wrote were copied.
  void copied(std::uint64_t offset, const Shadow& from, std::uint64_t from_offset, std::uint64_t bytes);
  bool written(std::uint64_t offset) const { return written_until(offset) > offset; }
  // Nothing is written any more.
  void forget();

 private:
  struct Page {
    std::uint32_t launch;
    int granule;
    std::vector<Cell> cells;
  };
  Page* page(std::uint64_t index, int granule, std::uint32_t launch);
  Page* make_page(std::uint64_t index, int granule);
  static void split(Page& page, int granule);
  static void age(Page& page, std::uint32_t launch);
  // From `offset` on all bytes up to here are written; `offset` itself when that one is not.
  std::uint64_t written_until(std::uint64_t offset) const;
  bool covers(std::uint64_t first, std::uint64_t last) const;

  std::uint64_t bytes_;
  std::map<std::uint64_t, std::uint64_t> ranges_;  // written outside of checked launches: start to end
  std::vector<std::unique_ptr<Page>> pages_;       // where present, they say what is written
};

}  // namespace astra
