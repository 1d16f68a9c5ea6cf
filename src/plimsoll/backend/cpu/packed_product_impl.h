// Loops of packed_product.cpp; see for_each_isa.h and packed_product.h.

#include "backend/cpu/transpose_impl.h"

constexpr int64_t kWide = 2 * kLanes;  // columns of a panel

// Where sums go: a panel's columns, of which the last may have fewer.
struct PanelTarget {
  float* y;
  int64_t y_row;
  int64_t first, second;  // lanes of its two vectors
  bool add;
  const float* bias;
  bool relu;
  bool plain;  // all lanes are added to what is there, and that is all
};

inline void store_sum(Floats sum, const PanelTarget& t, int64_t at, int64_t lanes, float* y) {
  const bool whole = lanes == kLanes;
  if (t.add) sum += whole ? load(y) : load_first(y, lanes);
  if (t.bias != nullptr) sum += whole ? load(t.bias + at) : load_first(t.bias + at, lanes);
  if (t.relu) sum = sum < 0.0f ? Floats{} : sum;
  if (whole) {
    store(y, sum);
  } else {
    store_first(y, sum, lanes);
  }
}

// kRows rows of x and a panel of `inner` steps.
template <int kRows>
void multiply_rows(const float* x, int64_t x_row, int64_t x_step, const float* panel, int64_t inner,
                   const PanelTarget& t) {
  Floats sums[kRows][2] = {};
  for (int64_t k = 0; k < inner; ++k) {
    const Floats low = load(panel);
    const Floats high = load(panel + kLanes);
    for (int r = 0; r < kRows; ++r) {
      const Floats value = broadcast(x[r * x_row]);
      sums[r][0] = multiply_add(value, low, sums[r][0]);
      sums[r][1] = multiply_add(value, high, sums[r][1]);
    }
    x += x_step;
    panel += kWide;
  }
  for (int r = 0; r < kRows; ++r) {
    float* y = t.y + r * t.y_row;
    if (t.plain) {
      store(y, sums[r][0] + load(y));
      store(y + kLanes, sums[r][1] + load(y + kLanes));
    } else {
      store_sum(sums[r][0], t, 0, t.first, y);
      if (t.second > 0) store_sum(sums[r][1], t, kLanes, t.second, y + kLanes);
    }
  }
}

inline void multiply_panel_rows(const float* x, const PackedProduct& p, int64_t rows,
                                const float* panel, int64_t inner, PanelTarget t) {
  int64_t row = 0;
  while (row < rows) {
    const int64_t left = rows - row;
    // Few rows are few chains, which wait for themselves: no tile of one or two rows where some
    // more can be spared.
    const int64_t now = left <= 6 ? left : left <= 8 ? 4 : left == 9 ? 5 : 6;
    const float* from = x + row * p.x_row;
    switch (now) {
      case 1:
        multiply_rows<1>(from, p.x_row, p.x_step, panel, inner, t);
        break;
      case 2:
        multiply_rows<2>(from, p.x_row, p.x_step, panel, inner, t);
        break;
      case 3:
        multiply_rows<3>(from, p.x_row, p.x_step, panel, inner, t);
        break;
      case 4:
        multiply_rows<4>(from, p.x_row, p.x_step, panel, inner, t);
        break;
      case 5:
        multiply_rows<5>(from, p.x_row, p.x_step, panel, inner, t);
        break;
      default:
        multiply_rows<6>(from, p.x_row, p.x_step, panel, inner, t);
        break;
    }
    row += now;
    t.y += now * p.y_row;
  }
}

// Panels of `columns` columns from `w` on, `count` steps each; lanes behind the last are zeros.
inline void pack_plain(const float* w, int64_t w_row, int64_t count, int64_t columns,
                       float* panels) {
  constexpr int64_t kAtOnce = 4 * kWide;
  for (int64_t from = 0; from < columns; from += kAtOnce) {
    const int64_t to = columns - from < kAtOnce ? columns : from + kAtOnce;
    for (int64_t k = 0; k < count; ++k) {
      const float* row = w + k * w_row;
      for (int64_t c = from; c < to; c += kWide) {
        float* panel = panels + c * count + k * kWide;
        if (to - c >= kWide) {
          store(panel, load(row + c));
          store(panel + kLanes, load(row + c + kLanes));
        } else {
          const int64_t left = to - c;
          store(panel, load_first(row + c, left < kLanes ? left : kLanes));
          store(panel + kLanes,
                left > kLanes ? load_first(row + c + kLanes, left - kLanes) : Floats{});
        }
      }
    }
  }
}

inline void pack_turned(const float* w, int64_t w_row, int64_t count, int64_t columns,
                        float* panels) {
  for (int64_t c = 0; c < columns; c += kLanes) {
    const int64_t lanes = columns - c < kLanes ? columns - c : kLanes;
    float* panel = panels + c / kWide * kWide * count + c % kWide;
    const float* from = w + c * w_row;
    int64_t k = 0;
#if PLIMSOLL_LANES >= 8
    if (lanes == kLanes) {
      for (; k + kLanes <= count; k += kLanes) {
        transpose_tile(from + k, w_row, kLanes, panel + k * kWide, kWide);
      }
    }
#endif
    for (; k < count; ++k) {
      for (int64_t lane = 0; lane < kLanes; ++lane) {
        panel[k * kWide + lane] = lane < lanes ? from[lane * w_row + k] : 0.0f;
      }
    }
  }
  // A last panel of one vector: the other is multiplied too.
  if ((columns + kLanes - 1) / kLanes % 2 == 0) return;
  float* panel = panels + columns / kWide * kWide * count + kLanes;
  for (int64_t k = 0; k < count; ++k) store(panel + k * kWide, Floats{});
}

void multiply_packed(const PackedProduct& p, float* panels) {
  const int64_t most_columns = packed_columns(kWide, p.inner, p.columns);
  for (int64_t column = 0; column < p.columns; column += most_columns) {
    const int64_t columns = p.columns - column < most_columns ? p.columns - column : most_columns;
    for (int64_t k = 0; k < p.inner; k += kPackedInner) {
      const int64_t count = p.inner - k < kPackedInner ? p.inner - k : kPackedInner;
      const bool last = k + count == p.inner;
      if (p.turned) {
        pack_turned(p.w + column * p.w_row + k, p.w_row, count, columns, panels);
      } else {
        pack_plain(p.w + k * p.w_row + column, p.w_row, count, columns, panels);
      }
      for (int64_t row = 0; row < p.rows; row += kPackedRows) {
        const int64_t rows = p.rows - row < kPackedRows ? p.rows - row : kPackedRows;
        const float* x = p.x + row * p.x_row + k * p.x_step;
        for (int64_t c = 0; c < columns; c += kWide) {
          const int64_t width = columns - c;
          const int64_t behind = width - kLanes < 0 ? 0 : width - kLanes;
          const bool add = p.add || k > 0;
          const bool finish = last && (p.bias != nullptr || p.relu);
          multiply_panel_rows(x, p, rows, panels + c * count, count,
                              {.y = p.y + row * p.y_row + column + c,
                               .y_row = p.y_row,
                               .first = width < kLanes ? width : kLanes,
                               .second = behind < kLanes ? behind : kLanes,
                               .add = add,
                               .bias = last && p.bias != nullptr ? p.bias + column + c : nullptr,
                               .relu = last && p.relu,
                               .plain = add && !finish && width >= kWide});
        }
      }
    }
  }
}
