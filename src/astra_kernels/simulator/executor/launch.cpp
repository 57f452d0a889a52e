// Running a launch on several host threads, and the functions that Python calls.
#include <xmmintrin.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <numeric>
#include <thread>

#include "atomics.h"
#include "interpreter.h"
#include "printing.h"
#include "residents.h"

namespace astra {
namespace {

constexpr unsigned kDefaultFloatMode = 0x1f80;  // round to nearest, denormals kept

bool may_wait(const LaunchRequest& request) {
  return std::any_of(request.code, request.code + request.instructions, [](const Instruction& in) {
    return in.handler == Handler::polling_load || in.handler == Handler::polling_atomic;
  });
}

// The host's floating-point unit as the device's, while this lives.
class DeviceRounding {
 public:
  DeviceRounding() { _mm_setcsr(kDefaultFloatMode); }
  ~DeviceRounding() { _mm_setcsr(before_); }

 private:
  const unsigned before_ = _mm_getcsr();
};

// Blocks are handed out in order, so the fault of the lowest block is the same in every run.
class Launch {
 public:
  Launch(const LaunchRequest& request, InstructionCounters* counters)
      : request_(request),
        counters_(counters),
        take_turns_(request.cooperative || may_wait(request)),
        sequence_(make_sequence()) {}

  void run(LaunchResult& result) {
    result.executed = count();
    if (take_turns_) return run_in_turns(result);
    const std::uint64_t blocks = count();
    // What is found must not depend on how host threads interleave.
    const int wanted = request_.checks ? 1 : std::max(1, request_.threads);
    const int threads = int(std::min<std::uint64_t>(std::uint64_t(wanted), blocks));
    std::vector<std::vector<InstructionCounters>> parts(static_cast<std::size_t>(threads));
    std::vector<LaunchResult> results(parts.size());
    std::vector<std::thread> helpers;
    for (int i = 1; i < threads; ++i)
      helpers.emplace_back([&, i] { work(parts[std::size_t(i)], results[std::size_t(i)]); });
    work(parts[0], results[0]);
    for (std::thread& helper : helpers) helper.join();
    for (std::size_t i = 0; i < parts.size(); ++i) merge(parts[i], results[i], result);
    result.unchecked = checks_.spent;
  }

 private:
  std::uint64_t count() const {
    if (request_.blocks) return std::uint64_t(request_.block_count);
    return std::uint64_t(request_.grid[0]) * request_.grid[1] * request_.grid[2];
  }

  LaunchChecks* checks() { return request_.checks ? &checks_ : nullptr; }

  // A block that polls may wait for one with a lower index, which the hardware starts earlier.
  std::vector<std::uint64_t> make_sequence() const {
    std::vector<std::uint64_t> sequence;
    if (!request_.order || take_turns_) return sequence;
    sequence.resize(count());
    std::iota(sequence.begin(), sequence.end(), 0);
    std::shuffle(sequence.begin(), sequence.end(), Random{request_.order});
    return sequence;
  }

  void work(std::vector<InstructionCounters>& counters, LaunchResult& result) {
    const DeviceRounding rounding;
    if (request_.count) counters.resize(std::uint64_t(request_.instructions));
    Interpreter interpreter(request_, request_.count ? counters.data() : nullptr, checks(), false);
    const std::uint64_t blocks = count();
    for (;;) {
      const std::uint64_t next = next_++;
      if (next >= blocks || next > first_fault_) break;
      const std::uint64_t place = sequence_.empty() ? next : sequence_[next];
      if (interpreter.run_block(request_.blocks ? request_.blocks[place] : place)) continue;
      interpreter.report_unwritten(true);
      note_fault(interpreter, result);
      std::uint64_t seen = first_fault_;
      while (next < seen && !first_fault_.compare_exchange_weak(seen, next)) {
      }
      break;
    }
    if (result.fault.kind == FaultKind::None && interpreter.report_unwritten(true))
      result.fault = interpreter.fault();
    result.barriers = interpreter.barriers();
  }

  static void note_fault(const Interpreter& interpreter, LaunchResult& result) {
    result.fault = interpreter.fault();
    interpreter.message().copy(result.message, sizeof result.message - 1);
  }

  // Blocks that may wait for one another are resident together and take turns, on one thread and always in the same
  // order.
  void run_in_turns(LaunchResult& result) {
    const DeviceRounding rounding;
    Interpreter interpreter(request_, request_.count ? counters_ : nullptr, checks(), true);
    Residents residents(request_, interpreter);
    const bool ended = residents.run();
    if (interpreter.report_unwritten(true) || !ended) note_fault(interpreter, result);
    result.barriers = interpreter.barriers();
    result.unchecked = checks_.spent;
    result.executed = residents.started();
    result.crowded = residents.crowded();
  }

  void merge(const std::vector<InstructionCounters>& part, const LaunchResult& from,
             LaunchResult& into) {
    into.barriers += from.barriers;
    const bool earlier = into.fault.kind == FaultKind::None || from.fault.block < into.fault.block;
    if (from.fault.kind != FaultKind::None && earlier) {
      into.fault = from.fault;
      std::memcpy(into.message, from.message, sizeof into.message);
    }
    for (std::size_t i = 0; i < part.size(); ++i) {
      counters_[i].warps += part[i].warps;
      counters_[i].threads += part[i].threads;
      counters_[i].guarded_on += part[i].guarded_on;
      counters_[i].global_requests += part[i].global_requests;
      counters_[i].shared_requests += part[i].shared_requests;
      counters_[i].local_requests += part[i].local_requests;
      counters_[i].sectors += part[i].sectors;
      counters_[i].lines += part[i].lines;
      counters_[i].wavefronts += part[i].wavefronts;
      counters_[i].atomic_passes += part[i].atomic_passes;
      counters_[i].splits += part[i].splits;
    }
  }

  const LaunchRequest& request_;
  InstructionCounters* counters_;
  const bool take_turns_;
  const std::vector<std::uint64_t> sequence_;  // of blocks; empty as they are numbered
  LaunchChecks checks_;
  std::atomic<std::uint64_t> next_{0};
  std::atomic<std::uint64_t> first_fault_{~0ull};
};

}  // namespace
}  // namespace astra

using namespace astra;

#pragma GCC visibility push(default)
extern "C" {

const char* astra_operation_name(int index) {
  return index < operations().size() ? operations()[index].name.c_str() : nullptr;
}

// The kinds of the result and then of the sources; returns how many.
int astra_operation_kinds(int index, std::uint8_t kinds[8]) {
  const NamedOperation& operation = operations()[index];
  kinds[0] = std::uint8_t(operation.result);
  int count = 1;
  for (RegisterKind kind : operation.sources) kinds[count++] = std::uint8_t(kind);
  return count;
}

const char* astra_handler_name(int index) {
  static const char* const names[] = {
#define X(name) #name,
      ASTRA_HANDLERS(X)
#undef X
  };
  return index < int(sizeof names / sizeof *names) ? names[index] : nullptr;
}

const char* astra_atomic_name(int index) {
  return index < int(atomics().size()) ? atomics()[std::size_t(index)].name.c_str() : nullptr;
}

int astra_atomic_order_matters(int index) { return atomics()[std::size_t(index)].order_matters; }

// One operation on 32 lanes, outside of any kernel.
void astra_apply(int index, void* result, const void* const* sources) {
  operations()[index].run(result, sources);
}

std::uint64_t astra_allocate(std::uint64_t bytes, const char* name, int counted) {
  return device_memory().allocate(bytes, name, counted != 0);
}

int astra_release(std::uint64_t address) { return device_memory().release(address); }

// The allocation nearest to an address: its start, size and name. Returns 0 when there is none.
int astra_nearest(std::uint64_t address, std::uint64_t* start, std::uint64_t* bytes,
                  const char** name) {
  const Allocation* found = device_memory().nearest(address);
  if (!found) return 0;
  *start = found->address;
  *bytes = found->bytes;
  *name = found->name.c_str();
  return 1;
}

// For the checks: these bytes were written by the host.
void astra_note_written(std::uint64_t address, std::uint64_t bytes) { device_memory().note_written(address, bytes); }

void astra_launch(const LaunchRequest* request, InstructionCounters* counters, LaunchResult* result) {
  *result = {};
  device_memory().begin_launch(request->count != 0);
  begin_printing();
  Launch(*request, counters).run(*result);
  end_printing();
  if (!request->checks) device_memory().end_unchecked_launch();
  result->bytes_read = device_memory().bytes_read();
  result->bytes_written = device_memory().bytes_written();
  result->busiest_atomic_passes = device_memory().busiest_atomic_passes();
}

}  // extern "C"
#pragma GCC visibility pop
