// Allocation. Device addresses are host addresses with checked bounds.
#include <unistd.h>

#include <algorithm>
#include <atomic>

#include "../executor/device_memory.h"
#include "../executor/garbage.h"
#include "cudart.h"

namespace astra::cudart {
namespace {

using astra::device_memory;

// So much of a new allocation holds random bytes; the host may not have memory for all that is asked for.
constexpr std::uint64_t kGarbageBytes = 64 << 20;
constexpr std::size_t kPitchUnit = 512;

std::uint64_t host_bytes() { return std::uint64_t(sysconf(_SC_PHYS_PAGES)) * std::uint64_t(sysconf(_SC_PAGESIZE)); }

std::uint64_t left(std::uint64_t total, std::uint64_t used) { return total - std::min(total, used); }

// Managed memory may be larger than the device's, whose pages then move to the host's.
std::uint64_t available(Home home) {
  const std::uint64_t device = left(machine().memory_bytes, device_memory().in_use(Home::Device));
  const std::uint64_t host = left(host_bytes(), device_memory().in_use(Home::Host));
  if (home == Home::Device) return device;
  return home == Home::Host ? host : left(device + host, device_memory().in_use(Home::Managed));
}

int allocate(void** pointer, std::size_t bytes, const char* name, Home home = Home::Device) {
  if (!pointer) return note(kInvalidValue);
  const bool fits = bytes <= available(home);
  std::uint64_t address = bytes && fits ? device_memory().allocate(bytes, name, true, home) : 0;
  static std::atomic<std::uint64_t> allocations{0};
  if (address)
    astra::fill_with_garbage(reinterpret_cast<std::uint8_t*>(address), std::min<std::uint64_t>(bytes, kGarbageBytes),
                             ++allocations << 32);
  *pointer = reinterpret_cast<void*>(address);
  return note(bytes && !address ? kMemoryAllocation : kSuccess);
}

int release(void* pointer, bool host) {
  if (!pointer) return kSuccess;
  const std::uint64_t address = reinterpret_cast<std::uint64_t>(pointer);
  const Allocation* holder = device_memory().find(address);
  if (!holder || (holder->home == Home::Host) != host) return note(kInvalidValue);
  return note(device_memory().release(address) ? kSuccess : kInvalidValue);
}

}  // namespace
}  // namespace astra::cudart

using namespace astra::cudart;
using astra::Home;

ASTRA_EXPORT int cudaMalloc(void** p, std::size_t n) { return allocate(p, n, "cudaMalloc"); }
ASTRA_EXPORT int cudaMallocAsync(void** p, std::size_t n, Stream s) {
  if (!on_stream(s, __func__)) return note(kNotSupported);
  return allocate(p, n, "cudaMallocAsync");
}
ASTRA_EXPORT int cudaMallocFromPoolAsync(void** p, std::size_t n, void*, Stream s) {
  if (!on_stream(s, __func__)) return note(kNotSupported);
  return allocate(p, n, "cudaMallocFromPoolAsync");
}
ASTRA_EXPORT int cudaMallocPitch(void** p, std::size_t* pitch, std::size_t width, std::size_t height) {
  std::size_t bytes = 0;
  if (!pitch || width > ~std::size_t(0) - kPitchUnit) return note(kInvalidValue);
  *pitch = (width + kPitchUnit - 1) / kPitchUnit * kPitchUnit;
  if (__builtin_mul_overflow(*pitch, height, &bytes)) return note(kMemoryAllocation);
  return allocate(p, bytes, "cudaMallocPitch");
}
ASTRA_EXPORT int cudaMallocManaged(void** p, std::size_t n, unsigned) {
  return allocate(p, n, "cudaMallocManaged", Home::Managed);
}
ASTRA_EXPORT int cudaMallocHost(void** p, std::size_t n) { return allocate(p, n, "cudaMallocHost", Home::Host); }
ASTRA_EXPORT int cudaHostAlloc(void** p, std::size_t n, unsigned) {
  return allocate(p, n, "cudaHostAlloc", Home::Host);
}
ASTRA_EXPORT int cudaFree(void* p) { return release(p, false); }
ASTRA_EXPORT int cudaFreeAsync(void* p, Stream s) {
  return on_stream(s, __func__) ? release(p, false) : note(kNotSupported);
}
ASTRA_EXPORT int cudaFreeHost(void* p) { return release(p, true); }

// One pool, which keeps nothing of what is freed, so that its attributes decide nothing.
ASTRA_EXPORT int cudaDeviceGetDefaultMemPool(void** pool, int device) {
  static char only;
  if (device != 0) return note(kInvalidDevice);
  *pool = &only;
  return kSuccess;
}
ASTRA_EXPORT int cudaDeviceGetMemPool(void** pool, int device) { return cudaDeviceGetDefaultMemPool(pool, device); }
ASTRA_EXPORT int cudaMemPoolSetAttribute(void*, int, void*) { return kSuccess; }
ASTRA_EXPORT int cudaMemPoolTrimTo(void*, std::size_t) { return kSuccess; }

ASTRA_EXPORT int cudaMemGetInfo(std::size_t* free, std::size_t* total) {
  *total = machine().memory_bytes;
  *free = available(Home::Device);
  return kSuccess;
}
