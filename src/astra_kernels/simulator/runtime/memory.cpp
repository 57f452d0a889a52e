// Memory: allocation, copies, fills. Device addresses are host addresses with checked bounds.
#include <algorithm>
#include <atomic>
#include <cstring>

#include "../executor/device_memory.h"
#include "../executor/garbage.h"
#include "cudart.h"

namespace astra::cudart {
namespace {

using astra::device_memory;

// So much of a new allocation holds random bytes; the host may not have memory for all that is asked for.
constexpr std::uint64_t kGarbageBytes = 64 << 20;
// The streams of the functions that take none.
constexpr Stream kDefaultStream = nullptr;

// An address that is not the device's is the host's own, about which nothing is known.
bool fits(const void* pointer, std::size_t bytes) {
  const std::uint64_t address = reinterpret_cast<std::uint64_t>(pointer);
  const Allocation* holder = device_memory().find(address);
  return !holder || holder->holds(address, bytes);
}

int allocate(void** pointer, std::size_t bytes, const char* name) {
  if (!pointer) return note(kInvalidValue);
  std::uint64_t address = bytes ? device_memory().allocate(bytes, name, true) : 0;
  static std::atomic<std::uint64_t> allocations{0};
  if (address)
    astra::fill_with_garbage(reinterpret_cast<std::uint8_t*>(address), std::min<std::uint64_t>(bytes, kGarbageBytes),
                             ++allocations << 32);
  *pointer = reinterpret_cast<void*>(address);
  return note(bytes && !address ? kMemoryAllocation : kSuccess);
}

int release(void* pointer) {
  if (!pointer) return kSuccess;
  return note(device_memory().release(reinterpret_cast<std::uint64_t>(pointer)) ? kSuccess
                                                                                 : kInvalidValue);
}

int copy(void* to, const void* from, std::size_t bytes) {
  if (!fits(to, bytes) || !fits(from, bytes)) return note(kInvalidValue);
  std::memmove(to, from, bytes);
  device_memory().note_copied(reinterpret_cast<std::uint64_t>(to), reinterpret_cast<std::uint64_t>(from), bytes);
  return kSuccess;
}

int fill(void* to, int value, std::size_t bytes) {
  if (!fits(to, bytes)) return note(kInvalidValue);
  std::memset(to, value, bytes);
  device_memory().note_written(reinterpret_cast<std::uint64_t>(to), bytes);
  return kSuccess;
}

int copy_rows(void* to, std::size_t to_pitch, const void* from, std::size_t from_pitch,
              std::size_t width, std::size_t height) {
  for (std::size_t row = 0; row < height; ++row) {
    int error = copy(static_cast<char*>(to) + row * to_pitch,
                     static_cast<const char*>(from) + row * from_pitch, width);
    if (error) return error;
  }
  return kSuccess;
}

}  // namespace
}  // namespace astra::cudart

using namespace astra::cudart;

ASTRA_EXPORT int cudaGetSymbolAddress(void** address, const void* host);

namespace {

int copy_to_symbol(const void* symbol, const void* from, std::size_t bytes, std::size_t offset) {
  void* to = nullptr;
  if (int error = cudaGetSymbolAddress(&to, symbol)) return error;
  return copy(static_cast<char*>(to) + offset, from, bytes);
}

}  // namespace

ASTRA_EXPORT int cudaMalloc(void** p, std::size_t n) { return allocate(p, n, "cudaMalloc"); }
ASTRA_EXPORT int cudaMallocAsync(void** p, std::size_t n, Stream s) {
  if (!on_stream(s, __func__)) return note(kNotSupported);
  return allocate(p, n, "cudaMallocAsync");
}
ASTRA_EXPORT int cudaMallocManaged(void** p, std::size_t n, unsigned) {
  return allocate(p, n, "cudaMallocManaged");
}
ASTRA_EXPORT int cudaMallocHost(void** p, std::size_t n) { return allocate(p, n, "cudaMallocHost"); }
ASTRA_EXPORT int cudaHostAlloc(void** p, std::size_t n, unsigned) {
  return allocate(p, n, "cudaHostAlloc");
}
ASTRA_EXPORT int cudaFree(void* p) { return release(p); }
ASTRA_EXPORT int cudaFreeAsync(void* p, Stream s) {
  return on_stream(s, __func__) ? release(p) : note(kNotSupported);
}
ASTRA_EXPORT int cudaFreeHost(void* p) { return release(p); }

ASTRA_EXPORT int cudaMemcpy(void* to, const void* from, std::size_t n, int) {
  return on_stream(kDefaultStream, __func__) ? copy(to, from, n) : note(kNotSupported);
}
ASTRA_EXPORT int cudaMemcpyAsync(void* to, const void* from, std::size_t n, int, Stream s) {
  return on_stream(s, __func__) ? copy(to, from, n) : note(kNotSupported);
}
ASTRA_EXPORT int cudaMemcpy2D(void* to, std::size_t to_pitch, const void* from, std::size_t from_pitch,
                              std::size_t width, std::size_t height, int) {
  if (!on_stream(kDefaultStream, __func__)) return note(kNotSupported);
  return copy_rows(to, to_pitch, from, from_pitch, width, height);
}
ASTRA_EXPORT int cudaMemcpy2DAsync(void* to, std::size_t to_pitch, const void* from,
                                   std::size_t from_pitch, std::size_t width, std::size_t height, int,
                                   Stream s) {
  if (!on_stream(s, __func__)) return note(kNotSupported);
  return copy_rows(to, to_pitch, from, from_pitch, width, height);
}
ASTRA_EXPORT int cudaMemset(void* to, int value, std::size_t n) {
  return on_stream(kDefaultStream, __func__) ? fill(to, value, n) : note(kNotSupported);
}
ASTRA_EXPORT int cudaMemsetAsync(void* to, int value, std::size_t n, Stream s) {
  return on_stream(s, __func__) ? fill(to, value, n) : note(kNotSupported);
}

ASTRA_EXPORT int cudaMemcpyToSymbol(const void* symbol, const void* from, std::size_t n,
                                    std::size_t offset, int) {
  if (!on_stream(kDefaultStream, __func__)) return note(kNotSupported);
  return copy_to_symbol(symbol, from, n, offset);
}
ASTRA_EXPORT int cudaMemcpyToSymbolAsync(const void* symbol, const void* from, std::size_t n,
                                         std::size_t offset, int, Stream s) {
  if (!on_stream(s, __func__)) return note(kNotSupported);
  return copy_to_symbol(symbol, from, n, offset);
}
ASTRA_EXPORT int cudaMemcpyFromSymbol(void* to, const void* symbol, std::size_t n, std::size_t offset,
                                      int) {
  if (!on_stream(kDefaultStream, __func__)) return note(kNotSupported);
  void* from = nullptr;
  if (int error = cudaGetSymbolAddress(&from, symbol)) return error;
  return copy(to, static_cast<char*>(from) + offset, n);
}

ASTRA_EXPORT int cudaMemGetInfo(std::size_t* available, std::size_t* total) {
  *available = *total = machine().memory_bytes;
  return kSuccess;
}
