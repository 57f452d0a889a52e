// What kernels print, shown when their launch has ended.
#pragma once

#include <string>

namespace astra {

void begin_printing();
// Appends to what is shown; beyond 1 MiB a launch, as much as CUDA's buffer holds, nothing is kept.
void add_print(const std::string& text);
void end_printing();

}  // namespace astra
