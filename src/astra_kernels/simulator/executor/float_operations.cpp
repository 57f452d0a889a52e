// 32- and 64-bit floating-point arithmetic with every rounding mode, .ftz and .sat.
#include "rounding.h"
#include "scalar_float.h"

namespace astra {
namespace {

struct CopySign {
  template <class T>
  static T of(T sign, T magnitude) { return std::copysign(magnitude, sign); }
};

// `rest` is the ".ftz.f32" or ".f64" that ends the name.
template <class F>
void add_arithmetic(Registry& table, const std::string& rest) {
  table.binary<FloatAdd, F, F, F>("add" + rest);
  table.binary<FloatSub, F, F, F>("sub" + rest);
  table.binary<FloatMul, F, F, F>("mul" + rest);
  add_rounded<Map2<FloatAdd, F, F, F>>(table, "add", rest);
  add_rounded<Map2<FloatSub, F, F, F>>(table, "sub", rest);
  add_rounded<Map2<FloatMul, F, F, F>>(table, "mul", rest);
  add_rounded<Map3<FloatFma, F, F, F, F>>(table, "fma", rest);
  add_rounded<Map3<FloatFma, F, F, F, F>>(table, "mad", rest);
  add_rounded<Map2<FloatDiv, F, F, F>>(table, "div", rest);
  add_rounded<Map1<FloatSqrt, F, F>>(table, "sqrt", rest);
  add_rounded<Map1<FloatReciprocal, F, F>>(table, "rcp", rest);
  table.binary<FloatMin<false>, F, F, F>("min" + rest);
  table.binary<FloatMax<false>, F, F, F>("max" + rest);
  table.unary<FloatNeg, F, F>("neg" + rest);
  table.unary<FloatAbs, F, F>("abs" + rest);
}

// The f32 forms that f64 lacks: .sat and .NaN.
template <class F>
void add_single(Registry& table, const std::string& ftz) {
  const std::string sat = ftz + ".sat.f32", nan = ftz + ".NaN.f32";
  table.binary<Saturated<FloatAdd>, F, F, F>("add" + sat);
  table.binary<Saturated<FloatSub>, F, F, F>("sub" + sat);
  table.binary<Saturated<FloatMul>, F, F, F>("mul" + sat);
  add_rounded<Map2<Saturated<FloatAdd>, F, F, F>>(table, "add", sat);
  add_rounded<Map2<Saturated<FloatSub>, F, F, F>>(table, "sub", sat);
  add_rounded<Map2<Saturated<FloatMul>, F, F, F>>(table, "mul", sat);
  add_rounded<Map3<Saturated<FloatFma>, F, F, F, F>>(table, "fma", sat);
  const std::string signs = ".xorsign.abs.f32";
  table.binary<OfMagnitudes<FloatMin<false>>, F, F, F>("min" + ftz + signs);
  table.binary<OfMagnitudes<FloatMax<false>>, F, F, F>("max" + ftz + signs);
  table.binary<OfMagnitudes<FloatMin<true>>, F, F, F>("min" + ftz + ".NaN" + signs);
  table.binary<OfMagnitudes<FloatMax<true>>, F, F, F>("max" + ftz + ".NaN" + signs);
  table.binary<FloatMin<true>, F, F, F>("min" + nan);
  table.binary<FloatMax<true>, F, F, F>("max" + nan);
}

}  // namespace

void add_float_operations(Registry& table) {
  add_arithmetic<F32>(table, ".f32");
  add_arithmetic<F32Ftz>(table, ".ftz.f32");
  add_arithmetic<F64>(table, ".f64");
  add_single<F32>(table, "");
  add_single<F32Ftz>(table, ".ftz");
  table.binary<CopySign, F32, F32, F32>("copysign.f32");
  table.binary<CopySign, F64, F64, F64>("copysign.f64");
}

}  // namespace astra
