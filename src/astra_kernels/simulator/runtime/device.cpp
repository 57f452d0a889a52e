// The device, streams, events and errors. There is no cudaEventElapsedTime: nothing here has a device time.
#include <cstring>

#include "cudart.h"

namespace astra::cudart {
namespace {

// cudaDeviceAttr by number. The ones not listed are 0, as for a device without the feature.
int attribute(int which) {
  const MachineFacts& m = machine();
  switch (which) {
    case 1: case 2: case 3: return 1024;  // threads of a block, its x and its y
    case 4: return 64;
    case 5: return 0x7fffffff;  // the grid's x, y and z
    case 6: case 7: return 65535;
    case 8: return m.shared_per_block;
    case 9: return 65536;  // constant memory
    case 10: return 32;
    case 12: case 82: return m.registers_per_sm;
    case 13: return m.clock_khz;
    case 16: return m.multiprocessors;
    case 31: case 41: case 78: case 83: case 95: case 115: return 1;
    case 36: return m.memory_clock_khz;
    case 37: return m.memory_bus_bits;
    case 38: return m.l2_bytes;
    case 39: return m.max_threads_per_sm;
    case 75: return m.major;
    case 76: return m.minor;
    case 81: return m.shared_per_sm;
    case 97: return m.shared_per_block_optin;
    case 106: return m.max_blocks_per_sm;
    case 111: return m.shared_reserved;
    default: return 0;
  }
}

// A handle must only be distinct from null.
int make_handle(void** handle) {
  *handle = new char;
  return kSuccess;
}
int drop_handle(void* handle) {
  delete static_cast<char*>(handle);
  return kSuccess;
}

}  // namespace
}  // namespace astra::cudart

using namespace astra::cudart;

ASTRA_EXPORT int cudaGetDevice(int* device) {
  *device = 0;
  return kSuccess;
}
ASTRA_EXPORT int cudaSetDevice(int device) { return note(device == 0 ? kSuccess : kInvalidDevice); }
ASTRA_EXPORT int cudaGetDeviceCount(int* count) {
  *count = 1;
  return kSuccess;
}
ASTRA_EXPORT int cudaDeviceGetAttribute(int* value, int which, int device) {
  if (device != 0) return note(kInvalidDevice);
  *value = attribute(which);
  return kSuccess;
}
ASTRA_EXPORT int cudaDriverGetVersion(int* version) {
  *version = 13000;
  return kSuccess;
}
ASTRA_EXPORT int cudaRuntimeGetVersion(int* version) { return cudaDriverGetVersion(version); }

// cudaDeviceProp of CUDA 13.0, by the offsets of its fields; the others are 0.
ASTRA_EXPORT int cudaGetDeviceProperties(void* properties, int device) {
  if (device != 0) return note(kInvalidDevice);
  const MachineFacts& m = machine();
  char* at = static_cast<char*>(properties);
  auto put = [at](int offset, auto value) { std::memcpy(at + offset, &value, sizeof value); };
  std::memset(at, 0, 1008);
  std::memcpy(at, m.name, sizeof m.name);
  put(288, std::size_t(m.memory_bytes));
  put(296, std::size_t(m.shared_per_block));
  put(304, m.registers_per_sm);
  put(308, 32);  // warpSize
  put(320, 1024);
  const int threads[3] = {1024, 1024, 64}, grid[3] = {0x7fffffff, 65535, 65535};
  std::memcpy(at + 324, threads, sizeof threads);
  std::memcpy(at + 336, grid, sizeof grid);
  put(352, std::size_t(65536));  // totalConstMem
  put(360, m.major);
  put(364, m.minor);
  put(384, m.multiprocessors);
  put(560, 1);  // concurrentKernels
  put(588, 1);  // unifiedAddressing
  put(592, m.memory_bus_bits);
  put(596, m.l2_bytes);
  put(604, m.max_threads_per_sm);
  put(608, 1);  // streamPrioritiesSupported
  put(624, std::size_t(m.shared_per_sm));
  put(632, m.registers_per_sm);
  put(668, 1);  // cooperativeLaunch
  put(672, std::size_t(m.shared_per_block_optin));
  put(688, m.max_blocks_per_sm);
  put(696, std::size_t(m.shared_reserved));
  return kSuccess;
}

ASTRA_EXPORT int cudaDeviceSynchronize() { return kSuccess; }
ASTRA_EXPORT int cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  *least = *greatest = 0;
  return kSuccess;
}
ASTRA_EXPORT int cudaStreamCreate(Stream* s) { return make_handle(s); }
ASTRA_EXPORT int cudaStreamCreateWithFlags(Stream* s, unsigned) { return make_handle(s); }
ASTRA_EXPORT int cudaStreamCreateWithPriority(Stream* s, unsigned, int) { return make_handle(s); }
ASTRA_EXPORT int cudaStreamDestroy(Stream s) {
  return is_expected(s) ? note(kInvalidValue) : drop_handle(s);
}
ASTRA_EXPORT int cudaStreamSynchronize(Stream) { return kSuccess; }
ASTRA_EXPORT int cudaStreamQuery(Stream) { return kSuccess; }
ASTRA_EXPORT int cudaStreamWaitEvent(Stream, void*, unsigned) { return kSuccess; }
ASTRA_EXPORT int cudaStreamIsCapturing(Stream, int* status) {
  *status = 0;
  return kSuccess;
}
ASTRA_EXPORT int cudaEventCreate(void** e) { return make_handle(e); }
ASTRA_EXPORT int cudaEventCreateWithFlags(void** e, unsigned) { return make_handle(e); }
ASTRA_EXPORT int cudaEventDestroy(void* e) { return drop_handle(e); }
ASTRA_EXPORT int cudaEventRecord(void*, Stream) { return kSuccess; }
ASTRA_EXPORT int cudaEventSynchronize(void*) { return kSuccess; }
ASTRA_EXPORT int cudaEventQuery(void*) { return kSuccess; }

ASTRA_EXPORT const char* cudaGetErrorName(int error) {
  switch (error) {
#define X(code, name) \
  case code:          \
    return #name;
#include "error_codes.inc"
#undef X
  }
  return "unrecognized error code";
}

ASTRA_EXPORT const char* cudaGetErrorString(int error) {
  switch (error) {
#define X(code, message) \
  case code:             \
    return message;
#include "error_messages.inc"
#undef X
  }
  return cudaGetErrorName(error);
}
