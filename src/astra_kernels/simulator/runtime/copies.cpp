// Copies and fills. Both sides are looked at before a byte moves.
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "../executor/device_memory.h"
#include "cudart.h"

ASTRA_EXPORT int cudaGetSymbolAddress(void** address, const void* host);
ASTRA_EXPORT int cudaPeekAtLastError();

namespace astra::cudart {
namespace {

using astra::device_memory;

// cudaMemcpyKind.
enum Kind { kHostToHost, kHostToDevice, kDeviceToHost, kDeviceToDevice, kByAddress };

// The streams of the functions that take none.
constexpr Stream kDefaultStream = nullptr;

// Rows of bytes, `pitch` apart; one row for what lies side by side.
struct Area {
  const void* start;
  std::size_t pitch;
  std::size_t width, height;

  // From the first byte to the last; false where the numbers are absurd.
  bool extent(std::size_t& bytes) const {
    return !__builtin_mul_overflow(pitch, height - 1, &bytes) && !__builtin_add_overflow(bytes, width, &bytes);
  }
  char* row(std::size_t index) const { return static_cast<char*>(const_cast<void*>(start)) + index * pitch; }
};

std::uint64_t address_of(const void* pointer) { return reinterpret_cast<std::uint64_t>(pointer); }

const Allocation* holder_of(const void* pointer) { return device_memory().find(address_of(pointer)); }

// Whether the device can access it all: its own memory, managed memory, and the host's that it has mapped.
bool on_device(const Area& area) {
  const Allocation* holder = holder_of(area.start);
  std::size_t bytes = 0;
  return holder && area.extent(bytes) && holder->holds(address_of(area.start), bytes);
}

// Of the host's own memory nothing is known yet.
bool on_host(const Area& area) {
  const Allocation* holder = holder_of(area.start);
  return !holder || (holder->home != Home::Device && on_device(area));
}

bool is_right(const Area& area, int kind, bool device) {
  if (kind == kByAddress) return holder_of(area.start) ? on_device(area) : on_host(area);
  return device ? on_device(area) : on_host(area);
}

// Copies where one side is the host's own memory, some of which may not be there.
bool move_carefully(void* to, const void* from, std::size_t bytes) {
  for (std::size_t done = 0; done < bytes;) {
    const iovec into{static_cast<char*>(to) + done, bytes - done};
    const iovec out{const_cast<char*>(static_cast<const char*>(from)) + done, bytes - done};
    const ssize_t moved = process_vm_readv(getpid(), &into, 1, &out, 1, 0);
    if (moved <= 0) {
      if (errno == EFAULT) return false;
      std::memmove(static_cast<char*>(to) + done, out.iov_base, bytes - done);  // not allowed to ask here
      return true;
    }
    done += std::size_t(moved);
  }
  return true;
}

int copy_area(const Area& to, const Area& from, int kind) {
  if (kind < kHostToHost || kind > kByAddress) return note(kInvalidDirection);
  if (!to.width || !to.height) return kSuccess;
  if (to.height > 1 && (to.pitch < to.width || from.pitch < from.width)) return note(kInvalidPitch);
  if (!is_right(to, kind, kind == kHostToDevice || kind == kDeviceToDevice)) return note(kInvalidValue);
  if (!is_right(from, kind, kind == kDeviceToHost || kind == kDeviceToDevice)) return note(kInvalidValue);
  const bool known = holder_of(to.start) && holder_of(from.start);
  for (std::size_t row = 0; row < to.height; ++row) {
    if (known)
      std::memmove(to.row(row), from.row(row), to.width);
    else if (!move_carefully(to.row(row), from.row(row), to.width))
      return note(kInvalidValue);
    device_memory().note_copied(address_of(to.row(row)), address_of(from.row(row)), to.width);
  }
  return kSuccess;
}

int fill_area(const Area& to, int value) {
  if (!to.width || !to.height) return kSuccess;
  if (to.height > 1 && to.pitch < to.width) return note(kInvalidPitch);
  if (!on_device(to)) return note(kInvalidValue);
  for (std::size_t row = 0; row < to.height; ++row) {
    std::memset(to.row(row), value, to.width);
    device_memory().note_written(address_of(to.row(row)), to.width);
  }
  return kSuccess;
}

int copy(void* to, const void* from, std::size_t bytes, int kind) {
  return copy_area({to, bytes, bytes, 1}, {from, bytes, bytes, 1}, kind);
}

// The place in a variable; null when there is none, or not so much of it.
void* in_symbol(const void* symbol, std::size_t bytes, std::size_t offset) {
  void* start = nullptr;
  if (cudaGetSymbolAddress(&start, symbol)) return nullptr;
  const Allocation* holder = holder_of(start);
  const bool inside = offset <= holder->bytes && bytes <= holder->bytes - offset;
  if (!inside) note(kInvalidValue);
  return inside ? static_cast<char*>(start) + offset : nullptr;
}

int copy_to_symbol(const void* symbol, const void* from, std::size_t bytes, std::size_t offset, int kind) {
  void* to = in_symbol(symbol, bytes, offset);
  if (!to) return cudaPeekAtLastError();
  const bool known = kind == kHostToDevice || kind == kDeviceToDevice || kind == kByAddress;
  return known ? copy(to, from, bytes, kind) : note(kInvalidDirection);
}

int copy_from_symbol(void* to, const void* symbol, std::size_t bytes, std::size_t offset, int kind) {
  void* from = in_symbol(symbol, bytes, offset);
  if (!from) return cudaPeekAtLastError();
  const bool known = kind == kDeviceToHost || kind == kDeviceToDevice || kind == kByAddress;
  return known ? copy(to, from, bytes, kind) : note(kInvalidDirection);
}

}  // namespace
}  // namespace astra::cudart

using namespace astra::cudart;

ASTRA_EXPORT int cudaMemcpy(void* to, const void* from, std::size_t n, int kind) {
  return on_stream(kDefaultStream, __func__) ? copy(to, from, n, kind) : note(kNotSupported);
}
ASTRA_EXPORT int cudaMemcpyAsync(void* to, const void* from, std::size_t n, int kind, Stream s) {
  return on_stream(s, __func__) ? copy(to, from, n, kind) : note(kNotSupported);
}
ASTRA_EXPORT int cudaMemcpyPeer(void* to, int to_device, const void* from, int from_device, std::size_t n) {
  if (to_device || from_device) return note(kInvalidDevice);
  return on_stream(kDefaultStream, __func__) ? copy(to, from, n, kDeviceToDevice) : note(kNotSupported);
}
ASTRA_EXPORT int cudaMemcpyPeerAsync(void* to, int to_device, const void* from, int from_device, std::size_t n,
                                     Stream s) {
  if (to_device || from_device) return note(kInvalidDevice);
  return on_stream(s, __func__) ? copy(to, from, n, kDeviceToDevice) : note(kNotSupported);
}
ASTRA_EXPORT int cudaMemcpy2D(void* to, std::size_t to_pitch, const void* from, std::size_t from_pitch,
                              std::size_t width, std::size_t height, int kind) {
  if (!on_stream(kDefaultStream, __func__)) return note(kNotSupported);
  return copy_area({to, to_pitch, width, height}, {from, from_pitch, width, height}, kind);
}
ASTRA_EXPORT int cudaMemcpy2DAsync(void* to, std::size_t to_pitch, const void* from, std::size_t from_pitch,
                                   std::size_t width, std::size_t height, int kind, Stream s) {
  if (!on_stream(s, __func__)) return note(kNotSupported);
  return copy_area({to, to_pitch, width, height}, {from, from_pitch, width, height}, kind);
}
ASTRA_EXPORT int cudaMemset(void* to, int value, std::size_t n) {
  return on_stream(kDefaultStream, __func__) ? fill_area({to, n, n, 1}, value) : note(kNotSupported);
}
ASTRA_EXPORT int cudaMemsetAsync(void* to, int value, std::size_t n, Stream s) {
  return on_stream(s, __func__) ? fill_area({to, n, n, 1}, value) : note(kNotSupported);
}
ASTRA_EXPORT int cudaMemset2D(void* to, std::size_t pitch, int value, std::size_t width, std::size_t height) {
  return on_stream(kDefaultStream, __func__) ? fill_area({to, pitch, width, height}, value) : note(kNotSupported);
}
ASTRA_EXPORT int cudaMemset2DAsync(void* to, std::size_t pitch, int value, std::size_t width, std::size_t height,
                                   Stream s) {
  return on_stream(s, __func__) ? fill_area({to, pitch, width, height}, value) : note(kNotSupported);
}

ASTRA_EXPORT int cudaMemcpyToSymbol(const void* symbol, const void* from, std::size_t n, std::size_t offset,
                                    int kind) {
  if (!on_stream(kDefaultStream, __func__)) return note(kNotSupported);
  return copy_to_symbol(symbol, from, n, offset, kind);
}
ASTRA_EXPORT int cudaMemcpyToSymbolAsync(const void* symbol, const void* from, std::size_t n, std::size_t offset,
                                         int kind, Stream s) {
  if (!on_stream(s, __func__)) return note(kNotSupported);
  return copy_to_symbol(symbol, from, n, offset, kind);
}
ASTRA_EXPORT int cudaMemcpyFromSymbol(void* to, const void* symbol, std::size_t n, std::size_t offset, int kind) {
  if (!on_stream(kDefaultStream, __func__)) return note(kNotSupported);
  return copy_from_symbol(to, symbol, n, offset, kind);
}
ASTRA_EXPORT int cudaMemcpyFromSymbolAsync(void* to, const void* symbol, std::size_t n, std::size_t offset,
                                           int kind, Stream s) {
  if (!on_stream(s, __func__)) return note(kNotSupported);
  return copy_from_symbol(to, symbol, n, offset, kind);
}
