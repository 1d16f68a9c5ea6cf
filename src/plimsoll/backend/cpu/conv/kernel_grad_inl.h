// Loops of kernel_grad.cpp; see for_each_isa.h and kernel_grad.h.

#include "backend/cpu/product/panel_sums_inl.h"

static_assert(kMostRows == kPlainTileRows);

// One row of one phase: `count` positions from `first` on, `stride` apart, kRows channels of each.
template <int kRows>
float* copy_positions(const float* row, int64_t column, const PieceAxis& columns, int64_t first,
                      float* to) {
  const int64_t count = columns.per_phase();
  int64_t i = 0;
  for (; i < count && first + i * columns.stride < 0; ++i) {
    for (int r = 0; r < kRows; ++r) *to++ = 0.0f;
  }
  const float* from = row + (first + i * columns.stride) * column;
  for (; i < count && first + i * columns.stride < columns.input; ++i) {
    __builtin_memcpy(to, from, kRows * sizeof(float));
    from += columns.stride * column;
    to += kRows;
  }
  for (; i < count; ++i) {
    for (int r = 0; r < kRows; ++r) *to++ = 0.0f;
  }
  return to;
}

template <int kRows>
void copy_tile(const KernelGradPiece<float>& p, int64_t channel, float* to) {
  for (int64_t image = 0; image < p.images; ++image) {
    const float* x = p.x + image * p.x_image + channel;
    for (int64_t row_phase = 0; row_phase < p.rows.phases(); ++row_phase) {
      for (int64_t i = 0; i < p.rows.per_phase(); ++i) {
        const int64_t row = p.rows.first + row_phase + i * p.rows.stride;
        if (row < 0 || row >= p.rows.input) {
          const int64_t floats = p.columns.phases() * p.columns.per_phase() * kRows;
          for (int64_t k = 0; k < floats; ++k) to[k] = 0.0f;
          to += floats;
          continue;
        }
        for (int64_t phase = 0; phase < p.columns.phases(); ++phase) {
          to = copy_positions<kRows>(x + row * p.x_row, p.x_column, p.columns,
                                     p.columns.first + phase, to);
        }
      }
    }
  }
}

// Panels of the filters [first, first + filters), lanes after the last are zeros. A last one of no
// more than a vector's filters is half as wide.
inline void copy_gradient(const KernelGradPiece<float>& p, int64_t first, int64_t filters,
                          float* panels) {
  for (int64_t f = 0; f < filters; f += kWide) {
    const int64_t left = filters - f;
    const int64_t low = first_lanes_of(left);
    const int64_t high = second_lanes_of(left);
    const int64_t wide = high > 0 ? kWide : kLanes;
    for (int64_t image = 0; image < p.images; ++image) {
      for (int64_t row = 0; row < p.rows.count; ++row) {
        const float* from = p.dy + image * p.dy_image + row * p.dy_row + first + f;
        for (int64_t column = 0; column < p.columns.count; ++column) {
          if (left >= kWide) {
            store(panels, load(from));
            store(panels + kLanes, load(from + kLanes));
          } else {
            store(panels, load_first(from, low));
            if (high > 0) store(panels + kLanes, load_first(from + kLanes, high));
          }
          from += p.dy_column;
          panels += wide;
        }
      }
    }
  }
}

// Where one position of the kernel reads a tile.
struct TileWalk {
  int64_t images, rows, columns;
  int64_t image, row;  // strides in the tile
};

// kVectors: of a step of the panel.
template <int kRows, int kVectors>
void sum_position(const float* tile, const TileWalk& w, const float* panel, const PanelTarget& t) {
  if (t.add) fetch_target<kRows>(t, 0);
  Floats sums[kRows][2];
#pragma GCC unroll 6
  for (int r = 0; r < kRows; ++r) sums[r][0] = sums[r][1] = Floats{};
  for (int64_t image = 0; image < w.images; ++image) {
    for (int64_t row = 0; row < w.rows; ++row) {
      const float* x = tile + image * w.image + row * w.row;
      for (int64_t column = 0; column < w.columns; ++column) {
        const Floats low = load(panel);
        const Floats high = kVectors == 1 ? Floats{} : load(panel + kLanes);
#pragma GCC unroll 6
        for (int r = 0; r < kRows; ++r) {
          const Floats value = broadcast(x[r]);
          sums[r][0] = multiply_add(value, low, sums[r][0]);
          if (kVectors == 2) sums[r][1] = multiply_add(value, high, sums[r][1]);
        }
        x += kRows;
        panel += kVectors * kLanes;
      }
    }
  }
  finish_tile(sums, t);
}

// kRows channels from `channel` of the share on.
template <int kRows>
void sum_tile(const KernelGradPiece<float>& p, const KernelGradShare<float>& s, int64_t channel) {
  copy_tile<kRows>(p, s.first_channel + channel, s.tile);
  const int64_t row_floats = p.columns.phases() * p.columns.per_phase() * kRows;
  const TileWalk walk = {p.images, p.rows.count, p.columns.count,
                         p.rows.phases() * p.rows.per_phase() * row_floats, row_floats};
  for (int64_t f = 0; f < s.filters; f += kWide) {
    const int64_t left = s.filters - f;
    const float* panel = s.panels + f * p.steps();
    float* dw = s.dw + channel * s.dw_row + f;
    for (int64_t i = 0; i < p.rows.size; ++i) {
      const int64_t row = p.rows.phase_of(i) * p.rows.per_phase() + p.rows.index_of(i);
      for (int64_t j = 0; j < p.columns.size; ++j) {
        const int64_t column =
            p.columns.phase_of(j) * p.columns.per_phase() + p.columns.index_of(j);
        const float* tile = s.tile + row * row_floats + column * kRows;
        const PanelTarget target = {.y = dw,
                                    .y_row = s.dw_row,
                                    .first = first_lanes_of(left),
                                    .second = second_lanes_of(left),
                                    .add = s.add,
                                    .bias = nullptr,
                                    .relu = false,
                                    .whole = left >= kWide,
                                    .plain = left >= kWide};
        if (target.second > 0) {
          sum_position<kRows, 2>(tile, walk, panel, target);
        } else {
          sum_position<kRows, 1>(tile, walk, panel, target);
        }
        dw += s.dw_position;
      }
    }
  }
}

void add_piece(const KernelGradPiece<float>& p, const KernelGradShare<float>& s) {
  copy_gradient(p, s.first_filter, s.filters, s.panels);
  for_each_tile<kMostRows>(s.channels, [&](int64_t channel, auto tile) {
    sum_tile<decltype(tile)::kRows>(p, s, channel);
  });
}
