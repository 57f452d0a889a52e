// Running an operation under another rounding mode of the host's floating-point unit.
#pragma once

#include <cfenv>

#include "registry.h"

namespace astra {

// The call goes through a volatile pointer, so no operation can move across the mode changes.
template <int Mode, class Map>
struct Rounded : Map {
  static void run(void* result, const void* const* sources) {
    static const volatile Operation inner = &Map::run;
    std::fesetround(Mode);
    inner(result, sources);
    std::fesetround(FE_TONEAREST);
  }
};

// Registers `Map` under .rn, .rz, .rm and .rp; `rest` is what follows the rounding mode.
template <class Map>
void add_rounded(Registry& table, const std::string& op, const std::string& rest) {
  table.add<Map>(op + ".rn" + rest);
  table.add<Rounded<FE_TOWARDZERO, Map>>(op + ".rz" + rest);
  table.add<Rounded<FE_DOWNWARD, Map>>(op + ".rm" + rest);
  table.add<Rounded<FE_UPWARD, Map>>(op + ".rp" + rest);
}

}  // namespace astra
