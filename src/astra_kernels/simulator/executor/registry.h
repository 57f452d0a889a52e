// The operations that the interpreter knows, by the PTX spelling of each.
//
// This table is the only list of what is implemented: the Python side asks for it, and refuses
// any instruction whose full name is not in it.
#pragma once

#include <deque>
#include <string>
#include <vector>

#include "maps.h"

namespace astra {

struct NamedOperation {
  std::string name;
  Operation run;
  RegisterKind result;
  std::vector<RegisterKind> sources;
};

class Registry {
 public:
  template <class Map>
  void add(std::string name) {
    entries_.push_back({std::move(name), &Map::run, Map::result, Map::sources()});
  }
  template <class Fn, class Out, class A>
  void unary(const std::string& name) {
    add<Map1<Fn, Out, A>>(name);
  }
  template <class Fn, class Out, class A, class B>
  void binary(const std::string& name) {
    add<Map2<Fn, Out, A, B>>(name);
  }
  template <class Fn, class Out, class A, class B, class C>
  void ternary(const std::string& name) {
    add<Map3<Fn, Out, A, B, C>>(name);
  }
  template <class Fn, class Out, class A, class B, class C, class D>
  void quaternary(const std::string& name) {
    add<Map4<Fn, Out, A, B, C, D>>(name);
  }
  int size() const { return int(entries_.size()); }
  const NamedOperation& operator[](int index) const { return entries_[index]; }

 private:
  std::deque<NamedOperation> entries_;
};

// Each family of operations adds itself, in its own file.
void add_integer_operations(Registry&);
void add_bit_operations(Registry&);
void add_float_operations(Registry&);
void add_half_operations(Registry&);
void add_approximations(Registry&);
void add_comparisons(Registry&);
void add_integer_conversions(Registry&);
void add_float_conversions(Registry&);
void add_packed_conversions(Registry&);

const Registry& operations();
// The functions alone, for the inner loop.
const Operation* operation_table();

}  // namespace astra
