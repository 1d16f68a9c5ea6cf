// Loops of conv_pool.cpp; see for_each_isa.h and conv_pool.h.

#include "backend/cpu/conv/conv_pool_rows_inl.h"
#include "backend/cpu/simd/transpose_inl.h"

// Sums that stay in registers: rows × columns of vectors.
constexpr int kMostRows = 3;
constexpr int kMostColumns = kLanes == 16 ? 8 : 4;

// sums[r][c] += Σ over the list of value · from[offset + r][c].
template <int kRows, int kColumns>
inline void add_list_fixed(const float* values, const int32_t* offsets, int64_t count,
                           const float* from, int64_t from_row, float* sums, int64_t sums_row) {
  Floats total[kRows][kColumns];
  for (int r = 0; r < kRows; ++r) {
    for (int c = 0; c < kColumns; ++c) total[r][c] = load(sums + r * sums_row + c * kLanes);
  }
  for (int64_t i = 0; i < count; ++i) {
    const Floats value = broadcast(values[i]);
    const float* at = from + offsets[i];
    for (int r = 0; r < kRows; ++r) {
      for (int c = 0; c < kColumns; ++c) {
        total[r][c] = multiply_add(value, load(at + r * from_row + c * kLanes), total[r][c]);
      }
    }
  }
  for (int r = 0; r < kRows; ++r) {
    for (int c = 0; c < kColumns; ++c) store(sums + r * sums_row + c * kLanes, total[r][c]);
  }
}

template <int kRows>
inline void add_list_rows(int64_t columns, const float* values, const int32_t* offsets,
                          int64_t count, const float* from, int64_t from_row, float* sums,
                          int64_t sums_row) {
  while (columns > 0) {
    const int64_t now = columns < kMostColumns ? columns : kMostColumns;
    switch (now) {
      case 1:
        add_list_fixed<kRows, 1>(values, offsets, count, from, from_row, sums, sums_row);
        break;
      case 2:
        add_list_fixed<kRows, 2>(values, offsets, count, from, from_row, sums, sums_row);
        break;
      case 3:
        add_list_fixed<kRows, 3>(values, offsets, count, from, from_row, sums, sums_row);
        break;
      case 4:
        add_list_fixed<kRows, 4>(values, offsets, count, from, from_row, sums, sums_row);
        break;
#if PLIMSOLL_LANES == 16
      case 5:
        add_list_fixed<kRows, 5>(values, offsets, count, from, from_row, sums, sums_row);
        break;
      case 6:
        add_list_fixed<kRows, 6>(values, offsets, count, from, from_row, sums, sums_row);
        break;
      case 7:
        add_list_fixed<kRows, 7>(values, offsets, count, from, from_row, sums, sums_row);
        break;
      default:
        add_list_fixed<kRows, 8>(values, offsets, count, from, from_row, sums, sums_row);
        break;
#endif
    }
    columns -= now;
    from += now * kLanes;
    sums += now * kLanes;
  }
}

// The same for any number of rows of `row` numbers, a multiple of the vector.
inline void add_list(int64_t rows, int64_t row, const float* values, const int32_t* offsets,
                     int64_t count, const float* from, int64_t from_row, float* sums,
                     int64_t sums_row) {
  if (count == 0) return;
  const int64_t columns = row / kLanes;
  for (; rows >= kMostRows; rows -= kMostRows) {
    add_list_rows<kMostRows>(columns, values, offsets, count, from, from_row, sums, sums_row);
    from += kMostRows * from_row;
    sums += kMostRows * sums_row;
  }
  if (rows == 2) {
    add_list_rows<2>(columns, values, offsets, count, from, from_row, sums, sums_row);
  } else if (rows == 1) {
    add_list_rows<1>(columns, values, offsets, count, from, from_row, sums, sums_row);
  }
}

// Lists of a window's filters by the position that wins, `most` numbers apart: their gradients, and
// where their patches lie in the kernel. Up to a vector after each list is written to.
inline void list_filters(const PatchShape& s, const float* d, const uint8_t* winner, int64_t most,
                         float* values, int32_t* offsets, int64_t* counts) {
  for (int64_t t = 0; t <= s.taps; ++t) counts[t] = 0;
  int64_t first = 0;
#if PLIMSOLL_LANES >= 8
  const auto patch = static_cast<int32_t>(s.patch());
  Ints offset;
  for (int32_t i = 0; i < kLanes; ++i) offset[i] = i * patch;
  // One pass over the taps for each vector: many of them are sorted one by one.
  const int64_t in_vectors = kLanes == 16 || s.taps <= 9 ? s.filters : 0;
  for (; first + kLanes <= in_vectors; first += kLanes, offset += kLanes * patch) {
    const Floats v = load(d + first);
    const Ints wins = load_winners(winner + first);
    for (int64_t t = 0; t < s.taps; ++t) {
      const Lanes here = lanes_where_equal(wins, static_cast<int32_t>(t));
      const int64_t at = t * most + counts[t];
      store(values + at, lanes_in_front(here, v));
      store_ints(offsets + at, lanes_in_front(here, offset));
      counts[t] += count_lanes(here);
    }
  }
#endif
  for (int64_t f = first; f < s.filters; ++f) {
    const int64_t list = winner[f] < s.taps ? winner[f] : s.taps;  // no branch: half go each way
    const int64_t at = list * most + counts[list]++;
    values[at] = d[f];
    offsets[at] = static_cast<int32_t>(f * s.patch());
  }
}

inline float number(float x) { return x; }

#include "backend/cpu/conv/conv_pool_walk_inl.h"

// Sums over parts, filter by filter, back to the kernel's order: rows [begin, end) of the kernel's
// height × width × channels. `part_elements` from part to part.
void store_kernel_gradient(const PatchShape& s, const float* sums, int64_t parts,
                           int64_t part_elements, int64_t begin, int64_t end, float* kernel,
                           bool add) {
  for (int64_t row = begin; row < end; ++row) {
    const float* from = sums + row / s.run * s.row + row % s.run;
    float* to = kernel + row * s.filters;
    for (int64_t f = 0; f < s.filters; ++f) {
      float total = from[f * s.patch()];
      for (int64_t p = 1; p < parts; ++p) total += from[p * part_elements + f * s.patch()];
      to[f] = add ? to[f] + total : total;
    }
  }
}
// The kernel filter by filter, filters [begin, end), zeros after each run.
void spread_kernel(const PatchShape& s, const float* kernel, int64_t begin, int64_t end,
                   float* by_filter) {
  for (int64_t r = 0; r < s.kernel_rows; ++r) {
    const float* from = kernel + r * s.run * s.filters;
    float* to = by_filter + r * s.row;
    int64_t f = begin;
#if PLIMSOLL_LANES >= 8
    for (; f + kLanes <= end; f += kLanes) {
      int64_t i = 0;
      for (; i + kLanes <= s.run; i += kLanes) {
        transpose_tile(from + i * s.filters + f, s.filters, kLanes, to + f * s.patch() + i,
                       s.patch());
      }
      for (; i < s.row; ++i) {
        for (int64_t lane = f; lane < f + kLanes; ++lane) {
          to[lane * s.patch() + i] = i < s.run ? from[i * s.filters + lane] : 0.0f;
        }
      }
    }
#endif
    for (; f < end; ++f) {
      for (int64_t i = 0; i < s.row; ++i) {
        to[f * s.patch() + i] = i < s.run ? from[i * s.filters + f] : 0.0f;
      }
    }
  }
}
