// The stand-in CUDA runtime: the part of libcudart's binary interface that host launchers use.
//
// Types and numbers are those of CUDA 13.0's cuda_runtime_api.h and driver_types.h. Events are accepted
// and do nothing, since every operation has completed when its call returns. Streams order nothing either,
// but work on another one than the caller's is refused where the caller has named one.
#pragma once

#include <cstddef>
#include <cstdint>

#define ASTRA_EXPORT extern "C" __attribute__((visibility("default")))

namespace astra::cudart {

enum Error : int {
  kSuccess = 0,
  kInvalidValue = 1,
  kMemoryAllocation = 2,
  kInvalidConfiguration = 9,
  kInvalidPitch = 12,
  kInvalidSymbol = 13,
  kInvalidDirection = 21,
  kInvalidDeviceFunction = 98,
  kInvalidDevice = 101,
  kCooperativeLaunchTooLarge = 720,
  kNotSupported = 801,
};

struct Dim3 {
  unsigned x, y, z;
};
using Stream = void*;

// What Python tells about the machine; the fields of machines/*.json that the runtime reports.
struct MachineFacts {
  char name[64];
  std::uint64_t memory_bytes;
  std::int32_t multiprocessors;
  std::int32_t major, minor;
  std::int32_t clock_khz, memory_clock_khz, memory_bus_bits;
  std::int32_t l2_bytes;
  std::int32_t max_threads_per_sm, max_blocks_per_sm, registers_per_sm;
  std::int32_t shared_per_sm, shared_per_block, shared_per_block_optin, shared_reserved;
};

// What is known of a kernel from its PTX.
struct KernelFacts {
  std::int32_t static_shared_bytes;
  std::int32_t local_bytes;
  std::int32_t max_threads;
  std::int32_t registers;  // an estimate: PTX does not say
};

struct Kernel {
  const void* host_function;
  const char* name;
  const void* fatbin;  // the image that holds it
  int max_dynamic_shared;
};

struct LaunchCall {
  const void* fatbin;
  const char* name;
  unsigned grid[3], block[3];
  std::uint64_t shared_bytes;
  void** arguments;
  std::int32_t cooperative;
  std::int32_t programmatic;  // it may overlap the kernel before it in the stream
};

struct Callbacks {
  int (*launch)(const LaunchCall*);
  int (*describe)(const void* fatbin, const char* name, KernelFacts*);
  // The address and size of a module's variable; 0 when there is none.
  std::uint64_t (*symbol)(const void* fatbin, const char* name, std::uint64_t* bytes);
};

const MachineFacts& machine();
const Callbacks& callbacks();

// Remembers an error for cudaGetLastError and returns it.
int note(int error);

// Whether work may be put on this stream; if not, `function` is remembered for astra_stray_work.
bool on_stream(Stream stream, const char* function);
// Whether it is the stream that work must be on.
bool is_expected(Stream stream);

Kernel* find_kernel(const void* function);
// Fills in what is known; an error code when the kernel cannot be read.
int describe(const Kernel& kernel, KernelFacts& facts);
int blocks_per_multiprocessor(const KernelFacts& facts, int block_size, std::uint64_t dynamic_shared);

}  // namespace astra::cudart
