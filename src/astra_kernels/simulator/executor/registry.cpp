#include "registry.h"

namespace astra {

const Registry& operations() {
  static const Registry table = [] {
    Registry all;
    add_integer_operations(all);
    add_bit_operations(all);
    add_float_operations(all);
    add_half_operations(all);
    add_approximations(all);
    add_comparisons(all);
    add_integer_conversions(all);
    add_float_conversions(all);
    add_packed_conversions(all);
    return all;
  }();
  return table;
}

const Operation* operation_table() {
  static const std::vector<Operation> functions = [] {
    std::vector<Operation> out;
    for (int i = 0; i < operations().size(); ++i) out.push_back(operations()[i].run);
    return out;
  }();
  return functions.data();
}

}  // namespace astra
