// The stream that all work of a call belongs on. What is put on another one would not be ordered with it.
#include <mutex>
#include <string>

#include "cudart.h"

namespace astra::cudart {
namespace {

// Of the process, not of a thread: a launcher may have several.
std::mutex mutex;
Stream expected = nullptr;  // null: any
std::string stray;

const char* name_of(Stream stream) {
  switch (reinterpret_cast<std::uintptr_t>(stream)) {
    case 0: case 1: return "the default stream";  // as it is, and as cudaStreamLegacy
    case 2: return "the default stream of the thread";
    default: return "a stream of the launcher's own";
  }
}

}  // namespace

bool is_expected(Stream stream) {
  std::lock_guard lock(mutex);
  return expected && stream == expected;
}

bool on_stream(Stream stream, const char* function) {
  std::lock_guard lock(mutex);
  if (!expected || stream == expected) return true;
  if (stray.empty()) stray = std::string(function) + " on " + name_of(stream);
  return false;
}

}  // namespace astra::cudart

using namespace astra::cudart;

// From now on work must be on this stream; null allows any.
ASTRA_EXPORT void astra_expect_stream(Stream stream) {
  std::lock_guard lock(mutex);
  expected = stream;
  stray.clear();
}

// The first work since then that was on another stream and was refused, in words; empty when there was none.
ASTRA_EXPORT const char* astra_stray_work() { return stray.c_str(); }
