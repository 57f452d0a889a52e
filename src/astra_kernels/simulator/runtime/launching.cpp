// Launches, with the limits that the driver checks, and questions about kernels.
#include <algorithm>
#include <cstring>
#include <vector>

#include "cudart.h"

namespace astra::cudart {
namespace {

constexpr std::uint64_t kWarp = 32;
constexpr unsigned kMaxThreads = 1024, kMaxGridYZ = 65535, kMaxBlockZ = 64;

struct Configuration {
  Dim3 grid, block;
  std::uint64_t shared_bytes;
  Stream stream;
};

// cudaLaunchConfig_t and cudaLaunchAttribute.
struct LaunchAttribute {
  int id;
  int padding;
  unsigned char value[64];
};
struct LaunchConfig {
  Dim3 grid, block;
  std::size_t shared_bytes;
  Stream stream;
  LaunchAttribute* attributes;
  unsigned attribute_count;
};
enum { kCooperative = 2, kClusterDimension = 4, kProgrammaticSerialization = 6 };

// How a launch differs from a plain one.
struct Manner {
  const char* function;
  bool cooperative = false;
  bool programmatic = false;
};

thread_local std::vector<Configuration> pending;

int check_limits(const Kernel& kernel, const KernelFacts& facts, Dim3 grid, Dim3 block,
                 std::uint64_t shared_bytes) {
  const std::uint64_t threads = std::uint64_t(block.x) * block.y * block.z;
  const std::uint64_t blocks = std::uint64_t(grid.x) * grid.y * grid.z;
  if (threads == 0 || blocks == 0) return kInvalidConfiguration;
  if (block.x > kMaxThreads || block.y > kMaxThreads || block.z > kMaxBlockZ) return kInvalidConfiguration;
  if (threads > kMaxThreads || grid.x > 0x7fffffffu) return kInvalidConfiguration;
  if (grid.y > kMaxGridYZ || grid.z > kMaxGridYZ) return kInvalidConfiguration;
  const std::uint64_t total = shared_bytes + std::uint64_t(facts.static_shared_bytes);
  if (total > std::uint64_t(machine().shared_per_block_optin)) return kInvalidValue;
  // More than the default needs cudaFuncSetAttribute first.
  const std::uint64_t standard = std::uint64_t(machine().shared_per_block);
  const std::uint64_t allowed = std::max(standard, std::uint64_t(kernel.max_dynamic_shared) +
                                                       std::uint64_t(facts.static_shared_bytes));
  if (total > allowed) return kInvalidValue;
  if (facts.max_threads && threads > std::uint64_t(facts.max_threads)) return kInvalidValue;
  return kSuccess;
}

// The driver refuses a cooperative launch whose blocks are not all resident together.
bool fits_at_once(const KernelFacts& facts, Dim3 grid, Dim3 block, std::uint64_t shared_bytes) {
  const int each = blocks_per_multiprocessor(facts, int(block.x * block.y * block.z), shared_bytes);
  const std::uint64_t blocks = std::uint64_t(grid.x) * grid.y * grid.z;
  return blocks <= std::uint64_t(each) * std::uint64_t(machine().multiprocessors);
}

int launch(const void* function, const Configuration& how, void** arguments, Manner manner) {
  Kernel* kernel = find_kernel(function);
  if (!kernel) return note(kInvalidDeviceFunction);
  KernelFacts facts{};
  if (int error = describe(*kernel, facts)) return note(error);
  const Dim3 grid = how.grid, block = how.block;
  if (int error = check_limits(*kernel, facts, grid, block, how.shared_bytes)) return note(error);
  if (manner.cooperative && !fits_at_once(facts, grid, block, how.shared_bytes))
    return note(kCooperativeLaunchTooLarge);
  if (!on_stream(how.stream, manner.function)) return note(kNotSupported);
  LaunchCall call{kernel->fatbin, kernel->name, {grid.x, grid.y, grid.z}, {block.x, block.y, block.z},
                  how.shared_bytes, arguments, manner.cooperative, manner.programmatic};
  return note(callbacks().launch(&call));
}

}  // namespace

int describe(const Kernel& kernel, KernelFacts& facts) {
  return callbacks().describe(kernel.fatbin, kernel.name, &facts);
}

// The CUDA occupancy calculator's rules; `occupancy.py` states them with their sources.
int blocks_per_multiprocessor(const KernelFacts& facts, int block_size, std::uint64_t dynamic_shared) {
  const MachineFacts& m = machine();
  const std::uint64_t warps = (std::uint64_t(block_size) + kWarp - 1) / kWarp;
  if (warps == 0) return 0;
  const std::uint64_t per_warp = (std::uint64_t(facts.registers) * kWarp + 255) / 256 * 256;
  const std::uint64_t quarter = std::uint64_t(m.registers_per_sm) / 4;
  const std::uint64_t by_registers = quarter / std::max<std::uint64_t>(per_warp, 256) * 4 / warps;
  const std::uint64_t by_threads = std::uint64_t(m.max_threads_per_sm) / kWarp / warps;
  std::uint64_t shared = dynamic_shared + std::uint64_t(facts.static_shared_bytes + m.shared_reserved);
  shared = (shared + 127) / 128 * 128;
  const std::uint64_t by_shared = std::uint64_t(m.shared_per_sm) / shared;
  return int(std::min({by_registers, by_threads, by_shared, std::uint64_t(m.max_blocks_per_sm)}));
}

}  // namespace astra::cudart

using namespace astra::cudart;

ASTRA_EXPORT unsigned __cudaPushCallConfiguration(Dim3 grid, Dim3 block, std::size_t shared_bytes,
                                                  Stream stream) {
  pending.push_back({grid, block, shared_bytes, stream});
  return 0;
}

ASTRA_EXPORT int __cudaPopCallConfiguration(Dim3* grid, Dim3* block, std::size_t* shared_bytes,
                                            void* stream) {
  if (pending.empty()) return note(kInvalidConfiguration);
  const Configuration& last = pending.back();
  *grid = last.grid;
  *block = last.block;
  *shared_bytes = last.shared_bytes;
  *static_cast<Stream*>(stream) = last.stream;
  pending.pop_back();
  return kSuccess;
}

ASTRA_EXPORT int cudaLaunchKernel(const void* function, Dim3 grid, Dim3 block, void** arguments,
                                  std::size_t shared_bytes, Stream stream) {
  return launch(function, {grid, block, shared_bytes, stream}, arguments, {__func__});
}

ASTRA_EXPORT int __cudaLaunchKernel(void* kernel, Dim3 grid, Dim3 block, void** arguments,
                                    std::size_t shared_bytes, Stream stream) {
  return launch(kernel, {grid, block, shared_bytes, stream}, arguments, {"cudaLaunchKernel"});
}

ASTRA_EXPORT int cudaLaunchCooperativeKernel(const void* function, Dim3 grid, Dim3 block,
                                             void** arguments, std::size_t shared_bytes,
                                             Stream stream) {
  return launch(function, {grid, block, shared_bytes, stream}, arguments, {__func__, true});
}

// Attributes that only schedule (priority) change nothing here. Kernels run one after the other, so programmatic
// serialization changes no result either: the executor checks that the kernel waits before it touches memory.
ASTRA_EXPORT int cudaLaunchKernelExC(const LaunchConfig* config, const void* function,
                                     void** arguments) {
  Manner manner{"cudaLaunchKernelEx"};
  for (unsigned i = 0; i < config->attribute_count; ++i) {
    const LaunchAttribute& attribute = config->attributes[i];
    unsigned shape[3];
    std::memcpy(shape, attribute.value, sizeof shape);
    if (attribute.id == kClusterDimension && shape[0] * shape[1] * shape[2] > 1) return note(kNotSupported);
    if (attribute.id == kCooperative) manner.cooperative = shape[0] != 0;
    if (attribute.id == kProgrammaticSerialization) manner.programmatic = shape[0] != 0;
  }
  return launch(function, {config->grid, config->block, config->shared_bytes, config->stream}, arguments,
                manner);
}

ASTRA_EXPORT int cudaFuncSetAttribute(const void* function, int attribute, int value) {
  Kernel* kernel = find_kernel(function);
  if (!kernel) return note(kInvalidDeviceFunction);
  KernelFacts facts{};
  if (int error = describe(*kernel, facts)) return note(error);
  constexpr int kMaxDynamicShared = 8;
  if (attribute != kMaxDynamicShared) return kSuccess;
  if (value < 0 || value + facts.static_shared_bytes > machine().shared_per_block_optin)
    return note(kInvalidValue);
  kernel->max_dynamic_shared = value;
  return kSuccess;
}

ASTRA_EXPORT int cudaFuncSetCacheConfig(const void*, int) { return kSuccess; }

// cudaFuncAttributes.
struct FuncAttributes {
  std::size_t shared_bytes, const_bytes, local_bytes;
  int max_threads, registers, ptx_version, binary_version, cache_mode, max_dynamic_shared, carveout;
  int rest[23];
};
static_assert(sizeof(FuncAttributes) == 144);

ASTRA_EXPORT int cudaFuncGetAttributes(FuncAttributes* attributes, const void* function) {
  Kernel* kernel = find_kernel(function);
  if (!kernel) return note(kInvalidDeviceFunction);
  KernelFacts facts{};
  if (int error = describe(*kernel, facts)) return note(error);
  *attributes = {};
  attributes->shared_bytes = std::size_t(facts.static_shared_bytes);
  attributes->local_bytes = std::size_t(facts.local_bytes);
  attributes->max_threads = facts.max_threads ? facts.max_threads : int(kMaxThreads);
  attributes->registers = facts.registers;
  attributes->ptx_version = attributes->binary_version = 10 * machine().major + machine().minor;
  attributes->max_dynamic_shared =
      std::max(kernel->max_dynamic_shared, machine().shared_per_block - facts.static_shared_bytes);
  attributes->carveout = -1;
  return kSuccess;
}

ASTRA_EXPORT int cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int* blocks,
                                                                        const void* function,
                                                                        int block_size,
                                                                        std::size_t shared_bytes,
                                                                        unsigned) {
  Kernel* kernel = find_kernel(function);
  if (!kernel) return note(kInvalidDeviceFunction);
  KernelFacts facts{};
  if (int error = describe(*kernel, facts)) return note(error);
  *blocks = blocks_per_multiprocessor(facts, block_size, shared_bytes);
  return kSuccess;
}

ASTRA_EXPORT int cudaOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, const void* function,
                                                               int block_size,
                                                               std::size_t shared_bytes) {
  return cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(blocks, function, block_size,
                                                                shared_bytes, 0);
}

ASTRA_EXPORT int cudaOccupancyAvailableDynamicSMemPerBlock(std::size_t* bytes, const void*, int blocks,
                                                           int) {
  const MachineFacts& m = machine();
  if (blocks < 1) return note(kInvalidValue);
  *bytes = std::size_t(std::min(m.shared_per_sm / blocks - m.shared_reserved, m.shared_per_block_optin));
  return kSuccess;
}
