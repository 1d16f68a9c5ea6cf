// Loops of masks.cpp; see for_each_isa.h.

#include "backend/cpu/simd/vector_walk_inl.h"

// Where a draw in [0, 1) is at least `rate`: x scaled, else 0.
template <typename T>
void keep_drawn(const T* x, const float* draws, float rate, float scale, T* y, int64_t count) {
  for_each_vector(count, [&](auto lanes) {
    lanes.put(y, lanes.get(draws) >= rate ? lanes.get(x) * scale : Floats{});
  });
}

// Where the mask counts a, else b; `b` null: 0. T: as wide as an element.
template <typename T>
void select_each(const void* a, const void* b, const uint8_t* mask, void* y, int64_t count) {
  const auto* yes = static_cast<const T*>(a);
  const auto* no = static_cast<const T*>(b);
  auto* to = static_cast<T*>(y);
  if (no == nullptr) {
#pragma omp simd
    for (int64_t i = 0; i < count; ++i) to[i] = mask[i] != 0 ? yes[i] : T{};
    return;
  }
#pragma omp simd
  for (int64_t i = 0; i < count; ++i) to[i] = mask[i] != 0 ? yes[i] : no[i];
}
