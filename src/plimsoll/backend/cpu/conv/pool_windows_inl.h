// Winners of poolings as vectors, and which windows hold a pixel; part of pooling_inl.h.

#include "backend/cpu/simd/vector_walk_inl.h"

template <typename Winner>
inline Ints get_winners(WholeVector lanes, const Winner* from) {
  return load_winners(from + lanes.at);
}
template <typename Winner>
inline Ints get_winners(PartVector lanes, const Winner* from) {
  Winner numbers[kLanes] = {};
  for (int64_t i = 0; i < lanes.count; ++i) numbers[i] = from[lanes.at + i];
  return load_winners(numbers);
}
template <typename Winner>
inline void put_winners(WholeVector lanes, Winner* to, Ints winners) {
  store_winners(to + lanes.at, winners);
}
template <typename Winner>
inline void put_winners(PartVector lanes, Winner* to, Ints winners) {
  Winner numbers[kLanes];
  store_winners(numbers, winners);
  for (int64_t i = 0; i < lanes.count; ++i) to[lanes.at + i] = numbers[i];
}

#if PLIMSOLL_LANES == 16
inline Ints get_winners(PartVector lanes, const uint8_t* from) {
  const auto here = static_cast<__mmask16>((1u << lanes.count) - 1u);
  const __m128i small = _mm_maskz_loadu_epi8(here, from + lanes.at);
  return reinterpret_cast<Ints>(_mm512_maskz_cvtepu8_epi32(0xFFFF, small));
}
inline void put_winners(PartVector lanes, uint8_t* to, Ints winners) {
  const auto here = static_cast<__mmask16>((1u << lanes.count) - 1u);
  const __m128i small = _mm512_maskz_cvtepi32_epi8(0xFFFF, reinterpret_cast<__m512i>(winners));
  _mm_mask_storeu_epi8(to + lanes.at, here, small);
}
#endif

// The windows over the pixels of a row. Away from the edges they are those of the pixel a stride
// before, one output further on, and are not looked for again.
class RowWindows {
 public:
  RowWindows(const PoolShape& shape, int64_t row) : shape_(shape), row_(row) {}

  // Calls body(windows, where their offsets are counted from) for a column.
  template <typename Body>
  [[gnu::always_inline]] inline void at(int64_t column, const Body& body) {
    const ops::Window& w = shape_.columns;
    if (w.stride > kPhases || !shape_.whole_windows_over(column)) {
      shape_.find_windows(row_, column, edge_);
      body(edge_, int64_t{0});
      return;
    }
    const int64_t reach = column + w.before;
    Known& known = known_[reach % w.stride];
    if (known.reach < 0) {
      shape_.find_windows(row_, column, known.windows);
      known.reach = reach;
    }
    body(known.windows, (reach - known.reach) / w.stride * shape_.channels);
  }

 private:
  static constexpr int64_t kPhases = 3;
  struct Known {
    int64_t reach = -1;
    PoolTaps windows;
  };
  const PoolShape& shape_;
  int64_t row_;
  PoolTaps edge_;
  Known known_[kPhases];
};
