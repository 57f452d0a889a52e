// What nvcc's constructors call when a library is loaded: fat binaries, kernels, variables.
#include <deque>
#include <map>
#include <mutex>

#include "../executor/device_memory.h"
#include "cudart.h"

namespace astra::cudart {
namespace {

struct Symbol {
  const char* name;
  const void* fatbin;
};

struct Tables {
  std::mutex mutex;
  std::deque<Kernel> kernels;  // addresses stay valid: they are handed out as handles
  std::map<const void*, Kernel*> by_function;
  std::map<const void*, Symbol> symbols;
  MachineFacts machine{};
  Callbacks callbacks{};
};

Tables& tables() {
  static Tables all;
  return all;
}

thread_local int last_error = 0;

const Symbol* find_symbol(const void* host) {
  auto found = tables().symbols.find(host);
  return found == tables().symbols.end() ? nullptr : &found->second;
}

}  // namespace

const MachineFacts& machine() { return tables().machine; }
const Callbacks& callbacks() { return tables().callbacks; }

int note(int error) {
  if (error) last_error = error;
  return error;
}

// Launches name a kernel by its host function, or by the handle that __cudaGetKernel gave.
Kernel* find_kernel(const void* function) {
  auto found = tables().by_function.find(function);
  if (found != tables().by_function.end()) return found->second;
  for (Kernel& kernel : tables().kernels)
    if (&kernel == function) return &kernel;
  return nullptr;
}

}  // namespace astra::cudart

using namespace astra::cudart;

ASTRA_EXPORT void astra_configure(const MachineFacts* facts, const Callbacks* calls) {
  tables().machine = *facts;
  tables().callbacks = *calls;
}

struct FatbinWrapper {
  std::int32_t magic, version;
  const void* image;
  void* unused;
};

ASTRA_EXPORT void** __cudaRegisterFatBinary(void* wrapper) {
  return new void*(const_cast<void*>(static_cast<FatbinWrapper*>(wrapper)->image));
}
ASTRA_EXPORT void __cudaRegisterFatBinaryEnd(void**) {}
ASTRA_EXPORT void __cudaUnregisterFatBinary(void** handle) { delete handle; }
ASTRA_EXPORT char __cudaInitModule(void**) { return 1; }

ASTRA_EXPORT void __cudaRegisterFunction(void** handle, const char* host_function, char*,
                                         const char* name, int, void*, void*, void*, void*, int*) {
  std::lock_guard lock(tables().mutex);
  tables().kernels.push_back({host_function, name, *handle, 0});
  tables().by_function[host_function] = &tables().kernels.back();
}

ASTRA_EXPORT void __cudaRegisterVar(void** handle, char* host, char*, const char* name, int,
                                    std::size_t, int, int) {
  std::lock_guard lock(tables().mutex);
  tables().symbols[host] = {name, *handle};
}

ASTRA_EXPORT int __cudaGetKernel(void** kernel, const void* function) {
  *kernel = find_kernel(function);
  return note(*kernel ? kSuccess : kInvalidDeviceFunction);
}

ASTRA_EXPORT int cudaGetSymbolAddress(void** address, const void* host) {
  const Symbol* symbol = find_symbol(host);
  std::uint64_t bytes = 0;
  std::uint64_t at = symbol ? callbacks().symbol(symbol->fatbin, symbol->name, &bytes) : 0;
  *address = reinterpret_cast<void*>(at);
  return note(at ? kSuccess : kInvalidSymbol);
}

ASTRA_EXPORT int cudaGetSymbolSize(std::size_t* size, const void* host) {
  const Symbol* symbol = find_symbol(host);
  std::uint64_t bytes = 0;
  if (!symbol || !callbacks().symbol(symbol->fatbin, symbol->name, &bytes)) return note(kInvalidSymbol);
  *size = bytes;
  return kSuccess;
}

ASTRA_EXPORT int cudaGetLastError() {
  int error = last_error;
  last_error = 0;
  return error;
}
ASTRA_EXPORT int cudaPeekAtLastError() { return last_error; }
