// Tensor cores: mma.sync, and ldmatrix, stmatrix and movmatrix, which bring matrices into its layout.
//
// How an element of the result is computed: every product is exact, all of them and the accumulator are added
// up in double, in the order of k, and the sum is rounded once to the result's type, to nearest. Tensor cores
// align the products of a group to the largest and cut what does not fit, so their last bits differ.
// Integers are exact; f64 is a chain of fused multiply-adds.
#include "float8.h"
#include "interpreter.h"

namespace astra {
namespace {

constexpr int kMostRows = 16, kColumns = 8, kMostDepth = 32;

// The order is that of `matrices.py`.
enum class Type : unsigned { f16, bf16, tf32, f64, s8, u8, e4m3, e5m2, f32, s32 };

struct Product {
  Type a, b, c, d;
  int rows, depth;
  bool saturate;
};

Product product_of(const Instruction& in) {
  auto type = [&](int place) { return Type(in.operation >> (4 * place) & 15u); };
  return {type(0), type(1), type(2), type(3), in.element_bytes, in.elements, in.sign_extend != 0};
}

int bits_of(Type type) {
  switch (type) {
    case Type::f64: return 64;
    case Type::f16: case Type::bf16: return 16;
    case Type::s8: case Type::u8: case Type::e4m3: case Type::e5m2: return 8;
    default: return 32;
  }
}

// The `part`th element of a 32-bit register as a number; every type but f64 fits into a float.
float decode(Type type, std::uint32_t word, int part) {
  switch (type) {
    case Type::f16: return half_to_float(std::uint16_t(word >> (16 * part)));
    case Type::bf16: return bfloat_to_float(std::uint16_t(word >> (16 * part)));
    case Type::tf32: return bit_cast<float>(word & ~0x1fffu);  // the unit does not look at the other bits
    case Type::s8: return float(std::int8_t(word >> (8 * part)));
    case Type::u8: return float(std::uint8_t(word >> (8 * part)));
    case Type::e4m3: return E4M3::decode(word >> (8 * part) & 0xffu);
    case Type::e5m2: return E5M2::decode(word >> (8 * part) & 0xffu);
    default: return bit_cast<float>(word);
  }
}

// Which row or column, and which place along k, an element of A or B has (PTX ISA, "Matrix Fragments for mma"):
// a group of four lanes holds a line; the registers of A alternate between the upper and the lower half.
struct Place {
  int line, k;
};
Place place_of(int lane, int index, int part, int parts, bool halves) {
  const int line = (lane >> 2) + (halves ? 8 * (index & 1) : 0), step = halves ? index >> 1 : index;
  return {line, (lane & 3) * parts + part + step * 4 * parts};
}

std::int64_t clamp32(std::int64_t value) {
  return value < INT32_MIN ? INT32_MIN : value > INT32_MAX ? INT32_MAX : value;
}

template <class T>
struct Operands {
  T a[kMostRows][kMostDepth], b[kMostDepth][kColumns], sum[kMostRows][kColumns];
};

// Adds in the order of k, one row of eight columns at a time.
template <class T, class Step>
void multiply(Operands<T>& all, int rows, int depth, Step step) {
  for (int row = 0; row < rows; ++row)
    for (int k = 0; k < depth; ++k)
      for (int n = 0; n < kColumns; ++n)
        all.sum[row][n] = step(all.a[row][k], all.b[k][n], all.sum[row][n]);
}

// Calls `visit` with each element of the accumulator that a lane holds: its row, column, register and part.
template <class Visit>
void each_result(int rows, int parts, Visit visit) {
  for (int lane = 0; lane < kLanes; ++lane)
    for (int i = 0; i < rows / 4; ++i)
      visit(lane, (lane >> 2) + 8 * (i >> 1), (lane & 3) * 2 + (i & 1), i / parts, i % parts);
}

std::uint32_t encode(Type type, double value) {
  switch (type) {
    case Type::f16: return float_to_half(round_to_odd(value));
    case Type::s32: return std::uint32_t(std::int32_t(value));
    default: {
      const float single = float(value);
      return single == single ? bit_cast<std::uint32_t>(single) : 0x7fffffffu;
    }
  }
}

}  // namespace

// A warp-wide operation on matrices needs all of its lanes.
bool Interpreter::whole_warp(const Warp& warp, Mask mask) {
  if (mask == ~Mask(0)) return true;
  return fail(FaultKind::SyncMask, warp, __builtin_ctz(mask), mask, kLanes);
}

bool Interpreter::multiply_matrices(Warp& warp, const Instruction& in) {
  const Product p = product_of(in);
  const int results = p.d == Type::f16 ? p.rows / 8 : p.rows / 4;
  const std::int32_t* list = request_.operand_lists + in.target;
  if (p.a == Type::f64) {
    multiply_doubles(warp, list, p.rows, p.depth);
    return true;
  }
  Operands<double> all;
  const std::int32_t* next = list + results;
  auto gather = [&](Type type, int lines, bool halves, auto put) {
    const int parts = 32 / bits_of(type), count = lines * p.depth / kLanes / parts;
    for (int index = 0; index < count; ++index) {
      const std::uint32_t* words = lanes32(warp, *next++);
      for (int lane = 0; lane < kLanes; ++lane)
        for (int part = 0; part < parts; ++part)
          put(place_of(lane, index, part, parts, halves), decode(type, words[lane], part));
    }
  };
  gather(p.a, p.rows, p.rows == 16, [&](Place at, double value) { all.a[at.line][at.k] = value; });
  gather(p.b, kColumns, false, [&](Place at, double value) { all.b[at.k][at.line] = value; });
  const bool integers = p.d == Type::s32;
  each_result(p.rows, p.c == Type::f16 ? 2 : 1, [&](int lane, int row, int column, int index, int part) {
    const std::uint32_t word = lanes32(warp, next[index])[lane];
    all.sum[row][column] = integers ? double(std::int32_t(word)) : decode(p.c, word, part);
  });
  multiply(all, p.rows, p.depth, [](double a, double b, double sum) { return sum + a * b; });
  std::uint32_t out[8][kLanes] = {};
  const int parts = p.d == Type::f16 ? 2 : 1;
  each_result(p.rows, parts, [&](int lane, int row, int column, int index, int part) {
    double value = all.sum[row][column];
    if (integers) {  // exact in a double; wraps unless .satfinite
      const std::int64_t whole = std::int64_t(value);
      value = double(p.saturate ? clamp32(whole) : std::int64_t(std::int32_t(whole)));
    }
    out[index][lane] |= encode(p.d, value) << (16 * part);
  });
  for (int index = 0; index < results; ++index) write32(warp, list[index], ~Mask(0), out[index]);
  return true;
}

void Interpreter::multiply_doubles(Warp& warp, const std::int32_t* list, int rows, int depth) {
  auto lanes = [&](std::int32_t operand) {
    return reinterpret_cast<const double*>(source(warp, operand));
  };
  Operands<double> all;
  const int results = rows / 4;
  const std::int32_t* next = list + results;
  for (int index = 0; index < rows * depth / kLanes; ++index, ++next)
    for (int lane = 0; lane < kLanes; ++lane) {
      const Place at = place_of(lane, index, 0, 1, rows == 16);
      all.a[at.line][at.k] = lanes(*next)[lane];
    }
  for (int index = 0; index < kColumns * depth / kLanes; ++index, ++next)
    for (int lane = 0; lane < kLanes; ++lane) {
      const Place at = place_of(lane, index, 0, 1, false);
      all.b[at.k][at.line] = lanes(*next)[lane];
    }
  each_result(rows, 1, [&](int lane, int row, int column, int index, int) {
    all.sum[row][column] = lanes(next[index])[lane];
  });
  multiply(all, rows, depth, [](double a, double b, double sum) { return __builtin_fma(a, b, sum); });
  each_result(rows, 1, [&](int lane, int row, int column, int index, int) {
    if (list[index] == kNone) return;
    std::memcpy(warp.registers + list[index] + 8 * lane, &all.sum[row][column], 8);
  });
}

// Lane i gives the address of row i % 8 of matrix i / 8; a lane receives (or gives) two neighbouring halves of
// row lane / 4, or, transposed, of that column.
bool Interpreter::load_matrices(Warp& warp, const Instruction& in) {
  const int count = in.mode & 7;
  const bool transposed = in.mode & 8;
  const Mask rows = count == 4 ? ~Mask(0) : (Mask(1) << (kMatrixRows * count)) - 1;
  Access access;
  if (!find_parts(warp, in, rows, false, access)) return false;
  if (checks_ && !check(warp, in, access, Touch::Read)) return false;
  const std::uint8_t* row_at[kLanes] = {};
  for (const Pointers& part : access)
    for (Mask rest = part.mask; rest; rest &= rest - 1) row_at[__builtin_ctz(rest)] = part.of[__builtin_ctz(rest)];
  for (int index = 0; index < count; ++index) {
    const std::uint8_t* const* row = row_at + kMatrixRows * index;
    std::uint32_t out[kLanes];
    for (int lane = 0; lane < kLanes; ++lane) {
      std::uint16_t halves[2];
      for (int j = 0; j < 2; ++j) {
        const int line = lane >> 2, across = 2 * (lane & 3) + j;
        std::memcpy(&halves[j], transposed ? row[across] + 2 * line : row[line] + 2 * across, 2);
      }
      out[lane] = halves[0] | std::uint32_t(halves[1]) << 16;
    }
    write32(warp, in.results[index], ~Mask(0), out);
  }
  return true;
}

bool Interpreter::store_matrices(Warp& warp, const Instruction& in) {
  const int count = in.mode & 7;
  const bool transposed = in.mode & 8;
  const Mask rows = count == 4 ? ~Mask(0) : (Mask(1) << (kMatrixRows * count)) - 1;
  Access access;
  if (!find_parts(warp, in, rows, true, access)) return false;
  if (checks_ && !check(warp, in, access, Touch::Write)) return false;
  std::uint8_t* row_at[kLanes] = {};
  for (const Pointers& part : access)
    for (Mask rest = part.mask; rest; rest &= rest - 1) row_at[__builtin_ctz(rest)] = part.of[__builtin_ctz(rest)];
  for (int index = 0; index < count; ++index) {
    std::uint8_t* const* row = row_at + kMatrixRows * index;
    const std::uint32_t* words = lanes32(warp, in.sources[1 + index]);
    for (int lane = 0; lane < kLanes; ++lane)
      for (int j = 0; j < 2; ++j) {
        const std::uint16_t half = std::uint16_t(words[lane] >> (16 * j));
        const int line = lane >> 2, across = 2 * (lane & 3) + j;
        std::memcpy(transposed ? row[across] + 2 * line : row[line] + 2 * across, &half, 2);
      }
  }
  return true;
}

void Interpreter::transpose_matrix(Warp& warp, const Instruction& in) {
  const std::uint32_t* words = lanes32(warp, in.sources[0]);
  std::uint16_t halves[kMatrixRows][kMatrixRows];
  for (int lane = 0; lane < kLanes; ++lane)
    for (int j = 0; j < 2; ++j) halves[lane >> 2][2 * (lane & 3) + j] = std::uint16_t(words[lane] >> (16 * j));
  std::uint32_t out[kLanes];
  for (int lane = 0; lane < kLanes; ++lane)
    out[lane] = halves[2 * (lane & 3)][lane >> 2] | std::uint32_t(halves[2 * (lane & 3) + 1][lane >> 2]) << 16;
  write32(warp, in.results[0], ~Mask(0), out);
}

}  // namespace astra
