#include "backend/cpu/conv/conv_pool_pairs.h"

#include <cstring>

#if PLIMSOLL_HAS_VARIANTS
#include <immintrin.h>

// Nothing of the standard library's templates here: what another file shares would want the set.
#pragma GCC push_options
#pragma GCC target("arch=x86-64-v4,avx512bf16,prefer-vector-width=512")

namespace plimsoll::backend::cpu {
namespace {

constexpr int64_t kLanes = 16;
constexpr __mmask16 kAll = 0xFFFF;
// Sums that stay in registers: rows × columns of kPairedRow numbers.
constexpr int kMostRows = 3;
constexpr int kMostColumns = 4;

struct List {
  const uint16_t* values;
  const int32_t* offsets;
  int64_t count;
};

// total[r] += value[0] · first[r] + value[1] · second[r]; without kSecond, value[0] · first[r].
template <int kRows, int kColumns, bool kSecond>
inline void add_entries(uint32_t bits, const uint16_t* first, const uint16_t* second,
                        int64_t from_row, __m512 (&total)[kRows][2 * kColumns]) {
  const auto values = reinterpret_cast<__m512bh>(_mm512_set1_epi32(static_cast<int>(bits)));
  for (int r = 0; r < kRows; ++r) {
    for (int c = 0; c < kColumns; ++c) {
      const int64_t at = r * from_row + c * kPairedRow;
      const __m512i a = _mm512_loadu_si512(first + at);
      const __m512i b = kSecond ? _mm512_loadu_si512(second + at) : _mm512_setzero_si512();
      const auto low = reinterpret_cast<__m512bh>(_mm512_unpacklo_epi16(a, b));
      const auto high = reinterpret_cast<__m512bh>(_mm512_unpackhi_epi16(a, b));
      total[r][2 * c] = _mm512_dpbf16_ps(total[r][2 * c], low, values);
      total[r][2 * c + 1] = _mm512_dpbf16_ps(total[r][2 * c + 1], high, values);
    }
  }
}

template <int kRows, int kColumns>
inline void add_fixed(const List& list, const uint16_t* from, int64_t from_row, float* sums,
                      int64_t sums_row) {
  __m512 total[kRows][2 * kColumns];
  for (int r = 0; r < kRows; ++r) {
    for (int c = 0; c < 2 * kColumns; ++c) {
      total[r][c] = _mm512_loadu_ps(sums + r * sums_row + c * kLanes);
    }
  }
  int64_t i = 0;
  for (; i + 2 <= list.count; i += 2) {
    uint32_t bits;
    std::memcpy(&bits, list.values + i, sizeof bits);
    add_entries<kRows, kColumns, true>(bits, from + list.offsets[i], from + list.offsets[i + 1],
                                       from_row, total);
  }
  if (i < list.count) {
    add_entries<kRows, kColumns, false>(list.values[i], from + list.offsets[i], nullptr, from_row,
                                        total);
  }
  for (int r = 0; r < kRows; ++r) {
    for (int c = 0; c < 2 * kColumns; ++c) {
      _mm512_storeu_ps(sums + r * sums_row + c * kLanes, total[r][c]);
    }
  }
}

template <int kRows>
inline void add_rows(int64_t columns, const List& list, const uint16_t* from, int64_t from_row,
                     float* sums, int64_t sums_row) {
  while (columns > 0) {
    const int64_t now = columns < kMostColumns ? columns : kMostColumns;
    switch (now) {
      case 1:
        add_fixed<kRows, 1>(list, from, from_row, sums, sums_row);
        break;
      case 2:
        add_fixed<kRows, 2>(list, from, from_row, sums, sums_row);
        break;
      case 3:
        add_fixed<kRows, 3>(list, from, from_row, sums, sums_row);
        break;
      default:
        add_fixed<kRows, 4>(list, from, from_row, sums, sums_row);
        break;
    }
    columns -= now;
    from += now * kPairedRow;
    sums += now * kPairedRow;
  }
}

// sums[r][·] += Σ over the list of value · from[offset + r][·], of `row` numbers each.
void add_list(int64_t rows, int64_t row, const uint16_t* values, const int32_t* offsets,
              int64_t count, const uint16_t* from, int64_t from_row, float* sums,
              int64_t sums_row) {
  if (count == 0) return;
  const List list{values, offsets, count};
  const int64_t columns = row / kPairedRow;
  for (; rows >= kMostRows; rows -= kMostRows) {
    add_rows<kMostRows>(columns, list, from, from_row, sums, sums_row);
    from += kMostRows * from_row;
    sums += kMostRows * sums_row;
  }
  if (rows == 2) add_rows<2>(columns, list, from, from_row, sums, sums_row);
  if (rows == 1) add_rows<1>(columns, list, from, from_row, sums, sums_row);
}

float number(uint16_t half) {
  const uint32_t bits = static_cast<uint32_t>(half) << 16;
  float value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

void put_in_order(float* sums, int64_t count) {
  for (int64_t first = 0; first < count; first += kPairedRow) {
    float paired[kPairedRow];
    std::memcpy(paired, sums + first, sizeof paired);
    for (int64_t i = 0; i < kPairedRow; ++i) {
      sums[first + i] = paired[i / 8 * 4 + i % 4 + (i % 8 < 4 ? 0 : kLanes)];
    }
  }
}

void spread_kernel(const PatchShape& s, const uint16_t* kernel, int64_t begin, int64_t end,
                   uint16_t* by_filter) {
  for (int64_t i = begin * s.patch(); i < end * s.patch(); ++i) by_filter[i] = 0;
  for (int64_t f = begin; f < end; ++f) {
    for (int64_t r = 0; r < s.kernel_rows; ++r) {
      uint16_t* to = by_filter + f * s.patch() + r * s.row;
      for (int64_t i = 0; i < s.run; ++i) {
        const int64_t in = i % kLanes;
        to[i / kPairedRow * kPairedRow + in / 4 * 8 + in % 4 + i % kPairedRow / kLanes * 4] =
            kernel[(r * s.run + i) * s.filters + f];
      }
    }
  }
}

// As list_filters of conv_pool_inl.h.
void list_filters(const PatchShape& s, const uint16_t* d, const uint8_t* winner, int64_t most,
                  uint16_t* values, int32_t* offsets, int64_t* counts) {
  for (int64_t t = 0; t < s.taps; ++t) counts[t] = 0;
  const auto patch = static_cast<int32_t>(s.patch());
  const __m512i numbers = _mm512_set_epi32(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0);
  __m512i offset = _mm512_mullo_epi32(numbers, _mm512_set1_epi32(patch));
  int64_t first = 0;
  for (; first + kLanes <= s.filters; first += kLanes) {
    const __m512i v = _mm512_maskz_cvtepu16_epi32(
        kAll, _mm256_loadu_si256(reinterpret_cast<const __m256i*>(d + first)));
    const __m512i wins = _mm512_maskz_cvtepu8_epi32(
        kAll, _mm_loadu_si128(reinterpret_cast<const __m128i*>(winner + first)));
    for (int64_t t = 0; t < s.taps; ++t) {
      const __mmask16 here = _mm512_cmpeq_epi32_mask(wins, _mm512_set1_epi32(static_cast<int>(t)));
      const int64_t at = t * most + counts[t];
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(values + at),
                          _mm512_maskz_cvtepi32_epi16(kAll, _mm512_maskz_compress_epi32(here, v)));
      _mm512_storeu_si512(offsets + at, _mm512_maskz_compress_epi32(here, offset));
      counts[t] += __builtin_popcount(here);
    }
    offset = _mm512_add_epi32(offset, _mm512_set1_epi32(static_cast<int>(kLanes) * patch));
  }
  for (int64_t f = first; f < s.filters; ++f) {
    if (winner[f] >= s.taps) continue;
    const int64_t at = winner[f] * most + counts[winner[f]]++;
    values[at] = d[f];
    offsets[at] = static_cast<int32_t>(f * s.patch());
  }
}

#include "backend/cpu/conv/conv_pool_walk_inl.h"

constexpr PairedLoops kLoops = {add_kernel_gradient<uint16_t>, put_in_order, spread_kernel,
                                add_source_gradient<uint16_t>};

}  // namespace
}  // namespace plimsoll::backend::cpu

#pragma GCC pop_options

namespace plimsoll::backend::cpu {
const PairedLoops* paired_loops(const CpuOptions& options) {
  return options.pairs ? &kLoops : nullptr;
}
}  // namespace plimsoll::backend::cpu
#else
namespace plimsoll::backend::cpu {
const PairedLoops* paired_loops(const CpuOptions&) { return nullptr; }
}  // namespace plimsoll::backend::cpu
#endif
