// Stand-in for a part of PyTorch's C++ API: errors and checks. Written from the public API's documentation.
#pragma once

#include <cuda_runtime.h>

#include <sstream>
#include <stdexcept>
#include <string>

namespace c10 {

class Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
  const char* what_without_backtrace() const noexcept { return what(); }
};

template <typename... Parts>
std::string str(const Parts&... parts) {
  std::ostringstream out;
  (out << ... << parts);
  return out.str();
}

template <typename... Parts>
[[noreturn]] void astra_throw(const char* condition, const Parts&... parts) {
  const std::string said = str(parts...);
  throw Error(said.empty() ? str("Expected ", condition, " to be true, but got false.") : said);
}

inline void astra_check_cuda(cudaError_t status) {
  if (status != cudaSuccess) throw Error(str("CUDA error: ", cudaGetErrorString(status)));
}

}  // namespace c10

#define TORCH_CHECK(condition, ...)                                    \
  do {                                                                 \
    if (!(condition)) ::c10::astra_throw(#condition, ##__VA_ARGS__);   \
  } while (false)
#define TORCH_CHECK_TYPE TORCH_CHECK
#define TORCH_CHECK_VALUE TORCH_CHECK
#define TORCH_CHECK_INDEX TORCH_CHECK
#define TORCH_CHECK_NOT_IMPLEMENTED TORCH_CHECK
#define TORCH_INTERNAL_ASSERT TORCH_CHECK
#define TORCH_INTERNAL_ASSERT_DEBUG_ONLY(...) ((void)0)
#define TORCH_CHECK_EQ(a, b) TORCH_CHECK((a) == (b), #a " == " #b " (", (a), " vs. ", (b), ")")
#define TORCH_CHECK_NE(a, b) TORCH_CHECK((a) != (b), #a " != " #b " (", (a), " vs. ", (b), ")")
#define TORCH_CHECK_LT(a, b) TORCH_CHECK((a) < (b), #a " < " #b " (", (a), " vs. ", (b), ")")
#define TORCH_CHECK_LE(a, b) TORCH_CHECK((a) <= (b), #a " <= " #b " (", (a), " vs. ", (b), ")")
#define TORCH_CHECK_GT(a, b) TORCH_CHECK((a) > (b), #a " > " #b " (", (a), " vs. ", (b), ")")
#define TORCH_CHECK_GE(a, b) TORCH_CHECK((a) >= (b), #a " >= " #b " (", (a), " vs. ", (b), ")")
#define AT_ERROR(...) ::c10::astra_throw("", ##__VA_ARGS__)
#define AT_ASSERT TORCH_CHECK
#define AT_ASSERTM TORCH_CHECK
#define TORCH_WARN(...) ((void)0)
#define TORCH_WARN_ONCE(...) ((void)0)
#define C10_CUDA_CHECK(call) ::c10::astra_check_cuda(call)
#define AT_CUDA_CHECK C10_CUDA_CHECK
#define C10_CUDA_KERNEL_LAUNCH_CHECK() C10_CUDA_CHECK(cudaGetLastError())
#define C10_LIKELY(condition) (__builtin_expect(static_cast<bool>(condition), 1))
#define C10_UNLIKELY(condition) (__builtin_expect(static_cast<bool>(condition), 0))
