// Arrays of float32 or bfloat16 by vectors, what is left over as a part of one; included after
// vectors_inl.h by files of loops. Numbers are float32 in between, whatever they are in memory.

#include "backend/cpu/simd/bfloat16_vectors_inl.h"

// The first `count` of a vector's numbers, after them those of `others`.
inline Floats load_part(const float* from, int64_t count, Floats others = Floats{}) {
#if PLIMSOLL_LANES == 16
  return _mm512_mask_loadu_ps(others, static_cast<__mmask16>((1u << count) - 1u), from);
#else
  Floats v = others;
  for (int64_t i = 0; i < count; ++i) v[i] = from[i];
  return v;
#endif
}
inline void store_part(float* to, Floats v, int64_t count) {
#if PLIMSOLL_LANES == 16
  _mm512_mask_storeu_ps(to, static_cast<__mmask16>((1u << count) - 1u), v);
#else
  for (int64_t i = 0; i < count; ++i) to[i] = v[i];
#endif
}

// Where a vector lies in arrays, and how much of it there is. `get` gives `others` for what is not
// there, `keep` makes that 0.
struct WholeVector {
  int64_t at;
  Floats get(const float* from, Floats) const { return load(from + at); }
  Floats keep(Floats v) const { return v; }
  template <typename T>
  Floats get(const T* from) const {
    return load(from + at);
  }
  template <typename T>
  void put(T* to, Floats v) const {
    store(to + at, v);
  }
};
struct PartVector {
  int64_t at;
  int64_t count;
  template <typename T>
  Floats get(const T* from) const {
    return load_part(from + at, count);
  }
  Floats get(const float* from, Floats others) const { return load_part(from + at, count, others); }
  Floats keep(Floats v) const {
    float numbers[kLanes];
    store(numbers, v);
    return load_part(numbers, count);
  }
  template <typename T>
  void put(T* to, Floats v) const {
    store_part(to + at, v, count);
  }
};

// body(vector) for the vectors of `count` numbers, the last one perhaps a part. Always inline: what
// a body refers to would be read again from memory after every store.
template <typename Body>
[[gnu::always_inline]] inline void for_each_vector(int64_t count, const Body& body) {
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) body(WholeVector{i});
  if (i < count) body(PartVector{i, count - i});
}
