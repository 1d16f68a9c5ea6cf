// Sums of a tile: a few rows of one factor times a panel, two vectors wide, of the other, in pairs
// of bfloat16 numbers. Part of the loops of paired products and of paired kernel gradients, for 16
// lanes.

#include "backend/cpu/simd/vectors_inl.h"

// After the vectors, whatever the alphabet says.
using Pairs = __m512bh;

#include "backend/cpu/simd/bfloat16_vectors_inl.h"
#include "backend/cpu/simd/tiles_inl.h"

static_assert(kWide == kPairedColumns);

// Bytes of a pair of steps in a panel.
constexpr int64_t kPanelStep = kWide * 4;

inline Pairs load_pairs(const std::byte* from) {
  return reinterpret_cast<Pairs>(_mm512_loadu_si512(from));
}
// The pair of numbers there, in every lane; its address needs no alignment.
inline Pairs broadcast_pair(const std::byte* from) {
  int bits;
  __builtin_memcpy(&bits, from, sizeof(bits));
  return reinterpret_cast<Pairs>(_mm512_set1_epi32(bits));
}
// A last number and zero.
inline Pairs broadcast_last(const std::byte* from) {
  uint16_t bits;
  __builtin_memcpy(&bits, from, sizeof(bits));
  return reinterpret_cast<Pairs>(_mm512_set1_epi32(bits));
}
inline Floats add_products(Floats sum, Pairs a, Pairs b) {
  return reinterpret_cast<Floats>(_mm512_dpbf16_ps(reinterpret_cast<__m512>(sum), a, b));
}

// A pair of steps: value(row) times a panel's two vectors. Unrolled by word, as below.
template <int kRows, typename Value>
[[gnu::always_inline]] inline void add_step(Floats (&sums)[kRows][2], const std::byte* panel,
                                            const Value& value) {
  const Pairs low = load_pairs(panel);
  const Pairs high = load_pairs(panel + 64);
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) {
    const Pairs factor = value(r);
    sums[r][0] = add_products(sums[r][0], low, factor);
    sums[r][1] = add_products(sums[r][1], high, factor);
  }
}

// Where a tile's sums go: a panel's columns, of which the last may have fewer.
struct PairedTarget {
  float* y;  // one of both
  uint16_t* bf16_y;
  int64_t y_row;
  int64_t first, second;  // lanes of its two vectors
  bool add;
  const float* bias;
  bool relu;
};

inline Floats finish_sum(Floats sum, const PairedTarget& t, int64_t at, int64_t lanes) {
  if (t.bias != nullptr) sum += load_first(t.bias + at, lanes);
  if (t.relu) sum = sum < 0.0f ? Floats{} : sum;
  return sum;
}
inline void store_sum(Floats sum, const PairedTarget& t, int64_t row, int64_t at, int64_t lanes) {
  const int64_t offset = row * t.y_row + at;
  if (t.bf16_y != nullptr) {
    uint16_t* y = t.bf16_y + offset;
    if (t.add) sum += load_part(y, lanes);
    store_part(y, finish_sum(sum, t, at, lanes), lanes);
  } else {
    float* y = t.y + offset;
    if (t.add) sum += load_first(y, lanes);
    store_first(y, finish_sum(sum, t, at, lanes), lanes);
  }
}

// What sums will be added to comes from far away.
inline void fetch_rows(const PairedTarget& t, int64_t rows) {
  if (!t.add || t.y == nullptr) return;
  for (int64_t r = 0; r < rows; ++r) {
    __builtin_prefetch(t.y + r * t.y_row, 1);
    __builtin_prefetch(t.y + r * t.y_row + kLanes, 1);
  }
}

// Sums that lie in memory, rows of a panel's columns.
inline void finish_rows(const float* sums, int64_t rows, const PairedTarget& t) {
  for (int64_t r = 0; r < rows; ++r) {
    const float* from = sums + r * kWide;
    store_sum(load_first(from, t.first), t, r, 0, t.first);
    if (t.second > 0) store_sum(load_first(from + kLanes, t.second), t, r, kLanes, t.second);
  }
}

// Sums that are still in registers. Unrolled by word: rolled loops would put them into memory.
template <int kRows>
[[gnu::always_inline]] inline void finish_tile(const Floats (&sums)[kRows][2],
                                               const PairedTarget& t) {
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) {
    store_sum(sums[r][0], t, r, 0, t.first);
    if (t.second > 0) store_sum(sums[r][1], t, r, kLanes, t.second);
  }
}

// Two steps of `columns` columns, up to a panel's, side by side: of steps that lie row by row in
// memory. Zeros in place of a step that is nullptr.
inline void interleave_steps(const uint16_t* first, const uint16_t* second, int64_t columns,
                             std::byte* panel) {
  const __mmask32 mask =
      columns >= kWide ? ~__mmask32{0} : static_cast<__mmask32>((uint32_t{1} << columns) - 1);
  const __m512i a =
      first == nullptr ? _mm512_setzero_si512() : _mm512_maskz_loadu_epi16(mask, first);
  const __m512i b =
      second == nullptr ? _mm512_setzero_si512() : _mm512_maskz_loadu_epi16(mask, second);
  const __m512i low_a = _mm512_cvtepu16_epi32(_mm512_castsi512_si256(a));
  const __m512i low_b = _mm512_cvtepu16_epi32(_mm512_castsi512_si256(b));
  const __m512i high_a = _mm512_cvtepu16_epi32(_mm512_extracti64x4_epi64(a, 1));
  const __m512i high_b = _mm512_cvtepu16_epi32(_mm512_extracti64x4_epi64(b, 1));
  _mm512_storeu_si512(panel, _mm512_or_si512(low_a, _mm512_slli_epi32(low_b, 16)));
  _mm512_storeu_si512(panel + 64, _mm512_or_si512(high_a, _mm512_slli_epi32(high_b, 16)));
}
