// printf and assert in kernels: vprintf reads its arguments from the thread's local memory.
#include "printing.h"

#include <algorithm>
#include <cstdio>
#include <mutex>

#include "interpreter.h"

namespace astra {
namespace {

constexpr std::size_t kMostBytes = 1 << 20;  // a launch: the size of CUDA's buffer
constexpr std::size_t kLongestText = 1 << 16;
constexpr int kMostArguments = 32;  // CUDA's limit
constexpr int kWidest = 4096;       // fields asked for by width or precision

struct Output {
  std::mutex mutex;
  std::string text;
  bool full = false;
};

Output& output() {
  static Output all;
  return all;
}

// One conversion of a format: "%-8.3lld" and the like.
struct Conversion {
  std::string flags;      // up to the length modifier, with stars replaced by numbers
  std::string length;
  char kind = 0;
  int stars = 0;
};

// Reads the conversion that starts after '%' at `at`; false when there is none that printf knows.
bool read_conversion(const std::string& format, std::size_t& at, Conversion& out) {
  const std::size_t start = at;
  at = std::min(format.find_first_not_of("-+ #0123456789.*", at), format.size());
  out.flags = format.substr(start, at - start);
  out.stars = int(std::count(out.flags.begin(), out.flags.end(), '*'));
  const std::size_t length = at;
  at = std::min(format.find_first_not_of("hlqjzt", at), format.size());
  out.length = format.substr(length, at - length);
  if (at == format.size() || out.flags.size() > 32) return false;
  out.kind = format[at++];
  return std::string("diouxXcsaAeEfFgGp").find(out.kind) != std::string::npos;
}

// A number in the flags that would ask for an absurd width.
bool too_wide(const std::string& flags) {
  for (std::size_t i = 0; i < flags.size();) {
    if (flags[i] < '0' || flags[i] > '9') {
      ++i;
      continue;
    }
    long value = 0;
    for (; i < flags.size() && flags[i] >= '0' && flags[i] <= '9'; ++i)
      value = std::min(value * 10 + (flags[i] - '0'), long(kWidest) + 1);
    if (value > kWidest) return true;
  }
  return false;
}

template <class T>
void append(std::string& text, const std::string& conversion, T value) {
  const int size = std::snprintf(nullptr, 0, conversion.c_str(), value);
  if (size <= 0) return;
  std::string part(std::size_t(size) + 1, '\0');
  std::snprintf(part.data(), part.size(), conversion.c_str(), value);
  text.append(part, 0, std::size_t(size));
}

bool is_wide(const Conversion& conversion) {
  const std::string& length = conversion.length;
  if (std::string("aAeEfFgGps").find(conversion.kind) != std::string::npos) return true;
  return length == "l" || length == "ll" || length == "q" || length == "j" || length == "z" || length == "t";
}

void append_value(std::string& text, const Conversion& conversion, std::uint64_t bits) {
  const std::string start = "%" + conversion.flags;
  switch (conversion.kind) {
    case 'd': case 'i': {
      std::int64_t value = is_wide(conversion) ? std::int64_t(bits) : std::int32_t(bits);
      if (conversion.length == "h") value = std::int16_t(bits);
      if (conversion.length == "hh") value = std::int8_t(bits);
      return append(text, start + "ll" + conversion.kind, (long long)value);
    }
    case 'o': case 'u': case 'x': case 'X': {
      std::uint64_t value = is_wide(conversion) ? bits : std::uint32_t(bits);
      if (conversion.length == "h") value = std::uint16_t(bits);
      if (conversion.length == "hh") value = std::uint8_t(bits);
      return append(text, start + "ll" + conversion.kind, (unsigned long long)value);
    }
    case 'c': return append(text, start + "c", int(std::uint8_t(bits)));
    case 'p': return append(text, start + "p", reinterpret_cast<void*>(bits));
    default: return append(text, start + conversion.kind, bit_cast<double>(bits));
  }
}

}  // namespace

void begin_printing() {
  output().text.clear();
  output().full = false;
}

void add_print(const std::string& text) {
  const std::lock_guard<std::mutex> lock(output().mutex);
  if (output().text.size() + text.size() > kMostBytes) output().full = true;
  if (!output().full) output().text += text;
}

void end_printing() {
  const std::lock_guard<std::mutex> lock(output().mutex);
  if (output().text.empty()) return;
  std::fwrite(output().text.data(), 1, output().text.size(), stdout);
  if (output().full) std::fputs("\n(the kernel printed more than 1 MiB; the rest is not shown)\n", stdout);
  std::fflush(stdout);
  output().text.clear();
}

bool Interpreter::read_for_print(Warp& warp, int lane, std::uint64_t address, void* to, int bytes) {
  Addresses at;
  at.of[lane] = address;
  const Mask only = Mask(1) << lane;
  Space space = Space::Global;
  if (address >> 60 == kSharedWindow >> 60) space = Space::Shared;
  if (address >> 60 == kLocalWindow >> 60) space = Space::Local;
  at.of[lane] -= space == Space::Shared ? kSharedWindow : space == Space::Local ? kLocalWindow : 0;
  access_bytes_ = bytes;
  Pointers pointers;
  InstructionCounters* counters = counters_;
  counters_ = nullptr;  // the hardware reads it elsewhere
  const bool ok = resolve(warp, space, at, only, false, pointers);
  counters_ = counters;
  if (ok) std::memcpy(to, pointers.of[lane], std::size_t(bytes));
  return ok;
}

bool Interpreter::read_text(Warp& warp, int lane, std::uint64_t address, std::string& text) {
  for (char next; text.size() < kLongestText; text += next) {
    if (!read_for_print(warp, lane, address++, &next, 1)) return false;
    if (!next) return true;
  }
  return true;
}

// Arguments lie one after the other, each aligned to its size: 4 bytes for an int, 8 for all that is wider.
bool Interpreter::format_line(Warp& warp, int lane, const std::string& format, std::uint64_t arguments,
                              Printed& out) {
  std::uint64_t at = arguments;
  auto take = [&](bool wide, std::uint64_t& bits) {
    const int size = wide ? 8 : 4;
    at = (at + std::uint64_t(size) - 1) / std::uint64_t(size) * std::uint64_t(size);
    bits = 0;
    const bool ok = read_for_print(warp, lane, at, &bits, size);
    at += std::uint64_t(size);
    ++out.arguments;
    return ok;
  };
  for (std::size_t i = 0; i < format.size();) {
    const char c = format[i++];
    if (c != '%') {
      out.text += c;
      continue;
    }
    if (i < format.size() && format[i] == '%') {
      out.text += format[i++];
      continue;
    }
    const std::size_t start = i;
    Conversion conversion;
    if (!read_conversion(format, i, conversion) || out.arguments + conversion.stars >= kMostArguments) {
      out.text.append(format, start - 1, i - start + 1);  // as it stands, like CUDA
      continue;
    }
    std::uint64_t bits;
    for (int star = 0; star < conversion.stars; ++star) {
      if (!take(false, bits)) return false;
      conversion.flags.replace(conversion.flags.find('*'), 1, std::to_string(std::int32_t(bits)));
    }
    if (too_wide(conversion.flags)) conversion.flags.clear();
    if (!take(is_wide(conversion), bits)) return false;
    if (conversion.kind == 's') {
      std::string text;
      if (!read_text(warp, lane, bits, text)) return false;
      append(out.text, "%" + conversion.flags + "s", text.c_str());
    } else {
      append_value(out.text, conversion, bits);
    }
  }
  return true;
}

bool Interpreter::print(Warp& warp, const Instruction& in, Mask mask) {
  const std::uint64_t* format = reinterpret_cast<const std::uint64_t*>(source(warp, in.sources[0]));
  const std::uint64_t* arguments = reinterpret_cast<const std::uint64_t*>(source(warp, in.sources[1]));
  std::uint32_t counts[kLanes] = {};
  for (Mask rest = mask; rest; rest &= rest - 1) {
    const int lane = __builtin_ctz(rest);
    std::string pattern;
    Printed line;
    if (!read_text(warp, lane, format[lane], pattern)) return false;
    if (!format_line(warp, lane, pattern, arguments[lane], line)) return false;
    add_print(line.text);
    counts[lane] = std::uint32_t(line.arguments);
  }
  write32(warp, in.results[0], mask, counts);
  return true;
}

// The sources are those of __assertfail: what failed, the file, the line, the function.
bool Interpreter::assert_fail(Warp& warp, const Instruction& in, Mask mask) {
  const int lane = __builtin_ctz(mask);
  std::string parts[3];
  const int at[3] = {0, 1, 3};
  for (int i = 0; i < 3; ++i) {
    std::uint64_t address;
    std::memcpy(&address, source(warp, in.sources[at[i]]) + 8 * lane, sizeof address);
    if (address && !read_text(warp, lane, address, parts[i])) return false;
  }
  const std::uint32_t line = lanes32(warp, in.sources[2])[lane];
  message_ = parts[1] + ":" + std::to_string(line) + ": " + parts[2] + ": assertion `" + parts[0] + "` failed";
  return fail(FaultKind::Assertion, warp, lane, 0, 0);
}

}  // namespace astra
