"""The device code behind a cache policy: loads and stores of any type in the widest words it allows."""

from __future__ import annotations

_WORDS = """\
#ifndef ASTRA_WORDS
#define ASTRA_WORDS
// The widest words in which a plain type can move, and their number.
template <int Align>
struct AstraWordOf {
  using type = uint4;
};
template <>
struct AstraWordOf<1> {
  using type = unsigned char;
};
template <>
struct AstraWordOf<2> {
  using type = unsigned short;
};
template <>
struct AstraWordOf<4> {
  using type = unsigned int;
};
template <>
struct AstraWordOf<8> {
  using type = uint2;
};

template <typename T>
struct AstraWords {
  static_assert(__is_standard_layout(T), "moves as words");
  using type = typename AstraWordOf<(alignof(T) < 16 ? int(alignof(T)) : 16)>::type;
  static constexpr int count = sizeof(T) / sizeof(type);
};

template <typename T, int N, int Bytes>
struct AstraVector;
#endif
"""

_LOADS = """
template <typename T>
__device__ __forceinline__ T astra_POLICY(const T* p) {
  typename AstraWords<T>::type words[AstraWords<T>::count];
#pragma unroll
  for (int i = 0; i < AstraWords<T>::count; ++i) {
    words[i] = __POLICY(reinterpret_cast<const typename AstraWords<T>::type*>(p) + i);
  }
  T value;
  memcpy(static_cast<void*>(&value), words, sizeof(T));
  return value;
}

template <int N, typename T>
__device__ __forceinline__ AstraVector<T, N, int(sizeof(T)) * N> astra_POLICY_lanes(const T* p) {
  return astra_POLICY(reinterpret_cast<const AstraVector<T, N, int(sizeof(T)) * N>*>(p));
}

template <typename V, typename T>
__device__ __forceinline__ void astra_POLICY_into(V& vector, const T* p) {
  vector = astra_POLICY(reinterpret_cast<const V*>(p));
}

template <template <typename, size_t> class V, typename F, size_t N, typename T>
__device__ __forceinline__ void astra_POLICY_cast(V<F, N>& vector, const T* p) {
  vector.cast_from(astra_POLICY(reinterpret_cast<const V<T, N>*>(p)));
}
"""

_STORES = """
template <typename T, typename Value>
__device__ __forceinline__ void astra_stcs(T* p, const Value& stored) {
  T value;
  value = stored;
  typename AstraWords<T>::type words[AstraWords<T>::count];
  memcpy(words, static_cast<const void*>(&value), sizeof(T));
#pragma unroll
  for (int i = 0; i < AstraWords<T>::count; ++i) {
    __stcs(reinterpret_cast<typename AstraWords<T>::type*>(p) + i, words[i]);
  }
}

template <typename T, typename V>
__device__ __forceinline__ void astra_stcs_as(T* p, const V& vector) {
  astra_stcs(reinterpret_cast<V*>(p), vector);
}

template <typename T, template <typename, size_t> class V, typename F, size_t N>
__device__ __forceinline__ void astra_stcs_cast(T* p, const V<F, N>& vector) {
  V<T, N> converted;
  converted.cast_from(vector);
  astra_stcs(reinterpret_cast<V<T, N>*>(p), converted);
}
"""

LOADS = ("ldg", "ldcs", "ldcg")


def _piece(policy: str, code: str) -> str:
    """Returns code that stands on its own wherever it is added: with the words, under one guard."""
    guard = f"ASTRA_{policy.upper()}"
    return f"#ifndef {guard}\n#define {guard}\n{_WORDS}{code.replace('POLICY', policy)}#endif\n"


CACHED = {
    policy: _piece(policy, _STORES if policy == "stcs" else _LOADS) for policy in (*LOADS, "stcs")
}
"""The helpers of each policy."""
