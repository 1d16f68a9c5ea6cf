// Loops of few_units.cpp; see for_each_isa.h.

#include "backend/cpu/simd/transpose_inl.h"

// Σ x · w over a stretch: four vectors of partial sums, folded pairwise.
float dot_stretch(const float* x, const float* w, int64_t count) {
  Floats a = {}, b = {}, c = {}, d = {};
  int64_t i = 0;
  for (; i + 4 * kLanes <= count; i += 4 * kLanes) {
    a += load(x + i) * load(w + i);
    b += load(x + i + kLanes) * load(w + i + kLanes);
    c += load(x + i + 2 * kLanes) * load(w + i + 2 * kLanes);
    d += load(x + i + 3 * kLanes) * load(w + i + 3 * kLanes);
  }
  Floats all = (a + b) + (c + d);
  float rest = 0.0f;
  for (; i < count; ++i) rest += x[i] * w[i];
  for (int width = kLanes / 2; width > 0; width /= 2) {
    for (int lane = 0; lane < width; ++lane) all[lane] += all[lane + width];
  }
  return all[0] + rest;
}

// y = w · factor.
void scale_stretch(const float* w, float factor, float* y, int64_t count) {
#pragma omp simd
  for (int64_t i = 0; i < count; ++i) y[i] = w[i] * factor;
}

// sums[i] (+)= Σ over rows of x[row][i] · d[row], for i in [begin, end) of rows of `width`.
void weighted_column_sums(const float* x, const float* d, int64_t rows, int64_t width,
                          int64_t begin, int64_t end, float* sums, bool add) {
  constexpr int64_t kStretch = 512;
  for (int64_t at = begin; at < end; at += kStretch) {
    const int64_t count = end - at < kStretch ? end - at : kStretch;
    float total[kStretch];
    for (int64_t i = 0; i < count; ++i) total[i] = x[at + i] * d[0];
    for (int64_t row = 1; row < rows; ++row) {
      const float* from = x + row * width + at;
      const float factor = d[row];
#pragma omp simd
      for (int64_t i = 0; i < count; ++i) total[i] += from[i] * factor;
    }
    if (add) {
      for (int64_t i = 0; i < count; ++i) sums[at + i] += total[i];
    } else {
      for (int64_t i = 0; i < count; ++i) sums[at + i] = total[i];
    }
  }
}

// --- few units: those of a row lie in one vector

// y[row][·] = bias + Σ x[row][i] · w[i][·] for kRows rows from `x` on. Sums of kStretch products
// are added to each other in order.
template <int kRows>
void few_units_rows(const float* x, int64_t width, const float* w, const float* bias, bool relu,
                    int64_t units, float* y) {
  constexpr int64_t kStretch = 512;
  Floats total[kRows];
  for (int r = 0; r < kRows; ++r) {
    total[r] = bias == nullptr ? Floats{} : load_first(bias, units);
  }
  for (int64_t first = 0; first < width; first += kStretch) {
    const int64_t last = first + kStretch < width ? first + kStretch : width;
    Floats sums[kRows] = {};
    for (int64_t i = first; i < last; ++i) {
      const Floats weights = load_first(w + i * units, units);
      for (int r = 0; r < kRows; ++r) {
        sums[r] = multiply_add(broadcast(x[r * width + i]), weights, sums[r]);
      }
    }
    for (int r = 0; r < kRows; ++r) total[r] += sums[r];
  }
  for (int r = 0; r < kRows; ++r) {
    if (relu) total[r] = total[r] < 0.0f ? Floats{} : total[r];
    store_first(y + r * units, total[r], units);
  }
}

void few_units_forward(const float* x, int64_t rows, int64_t width, const float* w,
                       const float* bias, bool relu, int64_t units, float* y) {
  int64_t row = 0;
  for (; row + 8 <= rows; row += 8) {
    few_units_rows<8>(x + row * width, width, w, bias, relu, units, y + row * units);
  }
  for (; row + 4 <= rows; row += 4) {
    few_units_rows<4>(x + row * width, width, w, bias, relu, units, y + row * units);
  }
  for (; row < rows; ++row) {
    few_units_rows<1>(x + row * width, width, w, bias, relu, units, y + row * units);
  }
}

// kRows rows of dx, up to kVectors vectors of columns: Σ dy[row][u] · transposed[u][column].
template <int kRows, int kVectors>
void few_units_tile(const float* dy, const float* transposed, int64_t units, int64_t width,
                    int64_t columns, float* dx) {
  Floats sums[kRows][kVectors] = {};
  for (int64_t u = 0; u < units; ++u) {
    for (int r = 0; r < kRows; ++r) {
      const Floats d = broadcast(dy[r * units + u]);
      for (int v = 0; v < kVectors; ++v) {
        sums[r][v] = multiply_add(d, load(transposed + (u * kVectors + v) * kLanes), sums[r][v]);
      }
    }
  }
  for (int r = 0; r < kRows; ++r) {
    for (int v = 0; v < kVectors; ++v) {
      const int64_t left = columns - v * kLanes;
      float* to = dx + r * width + v * kLanes;
      if (left >= kLanes) {
        store(to, sums[r][v]);
      } else if (left > 0) {
        store_first(to, sums[r][v], left);
      }
    }
  }
}

// dx[row][i] = Σ dy[row][u] · w[i][u] for i in [begin, end).
void few_units_grad_input(const float* dy, int64_t rows, const float* w, int64_t units,
                          int64_t width, int64_t begin, int64_t end, float* dx) {
  constexpr int kVectors = 4;
  constexpr int64_t kTile = kVectors * kLanes;
  float transposed[kLanes * kTile] = {};  // [unit][column]
  for (int64_t first = begin; first < end; first += kTile) {
    const int64_t columns = end - first < kTile ? end - first : kTile;
    int64_t transposed_columns = 0;
#if PLIMSOLL_LANES == 16
    for (; transposed_columns + kLanes <= columns; transposed_columns += kLanes) {
      transpose_tile(w + (first + transposed_columns) * units, units, units,
                     transposed + transposed_columns, kTile);
    }
#endif
    for (int64_t i = transposed_columns; i < columns; ++i) {
      const float* from = w + (first + i) * units;
      for (int64_t u = 0; u < units; ++u) transposed[u * kTile + i] = from[u];
    }
    int64_t row = 0;
#if PLIMSOLL_LANES == 16
    for (; row + 4 <= rows; row += 4) {
      few_units_tile<4, kVectors>(dy + row * units, transposed, units, width, columns,
                                  dx + row * width + first);
    }
#endif
    for (; row + 2 <= rows; row += 2) {
      few_units_tile<2, kVectors>(dy + row * units, transposed, units, width, columns,
                                  dx + row * width + first);
    }
    if (row < rows) {
      few_units_tile<1, kVectors>(dy + row * units, transposed, units, width, columns,
                                  dx + row * width + first);
    }
  }
}

// sums[i][·] = Σ x[row][i] · dy[row][·] for kColumns columns i from `x` on. Whole vectors are
// stored, each over the unused lanes of the one before: after the last is room for a vector.
template <int kColumns>
void few_units_columns(const float* x, const float* dy, int64_t rows, int64_t width, int64_t units,
                       float* sums) {
  Floats total[kColumns] = {};
  for (int64_t row = 0; row < rows; ++row) {
    const Floats d = load_first(dy + row * units, units);
    for (int i = 0; i < kColumns; ++i) {
      total[i] = multiply_add(broadcast(x[row * width + i]), d, total[i]);
    }
  }
  for (int i = 0; i < kColumns; ++i) store(sums + i * units, total[i]);
}

// dw[i][·] (+)= those sums, for columns [begin, end) of rows of `width`.
void few_units_grad_kernel(const float* x, const float* dy, int64_t rows, int64_t width,
                           int64_t units, int64_t begin, int64_t end, float* dw, bool add) {
  constexpr int64_t kTile = 128;
  float sums[(kTile + 1) * kLanes];
  for (int64_t first = begin; first < end; first += kTile) {
    const int64_t columns = end - first < kTile ? end - first : kTile;
    int64_t i = 0;
    for (; i + 16 <= columns; i += 16) {
      few_units_columns<16>(x + first + i, dy, rows, width, units, sums + i * units);
    }
    for (; i < columns; ++i) {
      few_units_columns<1>(x + first + i, dy, rows, width, units, sums + i * units);
    }
    float* to = dw + first * units;
    if (add) {
#pragma omp simd
      for (int64_t k = 0; k < columns * units; ++k) to[k] += sums[k];
    } else {
#pragma omp simd
      for (int64_t k = 0; k < columns * units; ++k) to[k] = sums[k];
    }
  }
}
