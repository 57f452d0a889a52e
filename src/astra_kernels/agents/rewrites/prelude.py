"""Device helpers that rewrites add to a file, each at most once."""

from __future__ import annotations

import re
from collections.abc import Iterable

from astra_kernels.agents.rewrites.edits import Editor
from astra_kernels.agents.rewrites.syntax import Node, Unit, text_of

DIVIDE = """\
#ifndef ASTRA_DIVIDE
#define ASTRA_DIVIDE
// a / b to 2 ulp without a branch: both sides are scaled where the hardware's reciprocal of b would
// vanish or overflow. Zeros, infinities and NaNs come out as those of a / b.
__device__ __forceinline__ float astra_divide(float a, float b) {
  const float size = fabsf(b);
  const float scale = size > 0x1p100f ? 0x1p-64f : size < 0x1p-100f ? 0x1p64f : 1.0f;
  float reciprocal;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(reciprocal) : "f"(b * scale));
  return a * scale * reciprocal;
}
#endif
"""

RECIPROCAL = """\
#ifndef ASTRA_RECIPROCAL
#define ASTRA_RECIPROCAL
// 1 / x to 1 ulp for x of at least 1, without a branch: a quarter of x has a normal reciprocal even
// where that of x is subnormal. 1 / infinity is 0.
__device__ __forceinline__ float astra_reciprocal(float x) {
  float y;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(0.25f * x));
  return 0.25f * y;
}
#endif
"""

TANH = """\
#ifndef ASTRA_TANH
#define ASTRA_TANH
// The hardware's tanh: relative error up to 2^-11.
__device__ __forceinline__ float astra_tanh(float x) {
  float y;
  asm("tanh.approx.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
#endif
"""

VECTOR = """\
#ifndef ASTRA_VECTOR
#define ASTRA_VECTOR
// N neighbouring elements that move in accesses of up to 16 bytes.
template <typename T, int N, int Bytes = sizeof(T) * N>
struct alignas(Bytes % 16 == 0 ? 16 : (Bytes & (Bytes - 1)) == 0 ? Bytes : alignof(T)) AstraVector {
  T lane[N];
};

// The most elements of one of these sizes that fit in Bytes, and at least one.
template <int Bytes, int Size, int... Sizes>
struct AstraLanes {
  static constexpr int own = AstraLanes<Bytes, Size>::value;
  static constexpr int others = AstraLanes<Bytes, Sizes...>::value;
  static constexpr int value = own > others ? own : others;
};

template <int Bytes, int Size>
struct AstraLanes<Bytes, Size> {
  static constexpr int value = Bytes > Size ? Bytes / Size : 1;
};

template <int N, typename T>
__device__ __forceinline__ bool astra_is_aligned(const T* p) {
  return reinterpret_cast<unsigned long long>(p) % alignof(AstraVector<T, N>) == 0;
}

template <int N, typename T>
__device__ __forceinline__ AstraVector<T, N> astra_load(const T* p) {
  return *reinterpret_cast<const AstraVector<T, N>*>(p);
}

template <int N, typename T>
__device__ __forceinline__ AstraVector<T, N> astra_like(const T*) {
  return AstraVector<T, N>();
}

template <int N, typename T>
__device__ __forceinline__ void astra_store(T* p, const AstraVector<T, N>& v) {
  *reinterpret_cast<AstraVector<T, N>*>(p) = v;
}
#endif
"""

_GUARD = re.compile(r"#ifndef (ASTRA_\w+)")


def add_prelude(editor: Editor, unit: Unit, helpers: Iterable[str]) -> None:
    """Inserts helpers behind the leading ``#include`` lines, unless the file has them already."""
    for helper in helpers:
        guard = _GUARD.match(helper)
        if guard is not None and f"#define {guard[1]}\n".encode() in unit.text:
            continue
        editor.insert(unit, _prelude_offset(unit), f"\n{helper}")


def _prelude_offset(unit: Unit) -> int:
    """Returns where the first declaration after includes can stand: outside any namespace."""
    container: Node = unit.root
    offset = 0
    guard = [c for c in container.children if c.type == "preproc_ifdef"]
    if len(guard) == 1 and text_of(guard[0]).startswith("#ifndef"):
        container = guard[0]
        name = container.child_by_field_name("name")
        define = next((c for c in container.children if c.type == "preproc_def"), name)
        offset = container.start_byte if define is None else define.end_byte
    for child in container.children:
        if child.type == "preproc_include":
            offset = child.end_byte
    return offset
