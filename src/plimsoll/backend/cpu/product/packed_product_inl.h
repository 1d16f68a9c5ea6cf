// Loops of packed_product.cpp; see for_each_isa.h and packed_product.h.

#include "backend/cpu/product/packed_panels_inl.h"

// A piece's panels: columns [column, column + columns), `count` steps from k on.
struct PackedPiece {
  int64_t column, columns, k, count;
  float* panels;
  bool made;          // or made by the first tile, those of whole width
  const float* next;  // the following piece of w where that is fetched, or nullptr
};

// The stretches of a following piece that a tile fetches beside the panel of column c.
// Steps of a plain w are fetched along its rows, a quarter of them a tile and a sixteenth a panel;
// columns of one whole piece each lie one after another.
inline PlainSteps fetches_of(const PackedProduct& p, const PackedPiece& piece, int64_t tile,
                             int64_t c) {
  if (p.transposed) {
    return {piece.next + (c + tile * kWide / kFetchTiles) * p.w_row, kFetchFloats};
  }
  const int64_t first = (tile * (kFetchFloats / kWide) + c / kWide % (kFetchFloats / kWide)) *
                        (piece.count / kFetchSteps);
  return {piece.next + c / kFetchFloats * kFetchFloats + first * p.w_row, p.w_row};
}

// The piece of w after one, where fetching it takes about as long as multiplying this one. Not of
// columns that have steps after those of the piece: their stretches do not lie one after another.
inline const float* next_piece(const PackedProduct& p, const PackedPiece& piece) {
  if (!fetches_pieces(p)) return nullptr;
  const int64_t k = piece.k + piece.count;
  if (k < p.inner) return p.transposed ? nullptr : p.w + k * p.w_row + piece.column;
  const int64_t column = piece.column + piece.columns;
  if (column >= p.columns) return nullptr;
  if (!p.transposed) return p.w + column;
  return piece.k == 0 && p.w_row == p.inner ? p.w + column * p.w_row : nullptr;
}

// Where sums of the steps from `first` on go, of a panel from `column` on.
inline PanelTarget target_of(const PackedProduct& p, int64_t row, int64_t column, int64_t first,
                             bool last) {
  const int64_t width = p.columns - column;
  return {.y = p.y + row * p.y_row + column,
          .y_row = p.y_row,
          .first = first_lanes_of(width),
          .second = second_lanes_of(width),
          .add = p.add || first > 0,
          .bias = last && p.bias != nullptr ? p.bias + column : nullptr,
          .relu = last && p.relu,
          .whole = width >= kWide,
          .plain = width >= kWide && !(last && (p.bias != nullptr || p.relu))};
}

// Steps of a transposed x lie far apart, which no cache foresees: these rows farther on are
// fetched. So are the next tile's rows of y, where they are not too many.
constexpr int64_t kRowsFetchedAhead = 32;
constexpr int64_t kColumnsFetchedAhead = 256;

// kRows rows from `row` on and all panels of a piece, which lie in the second cache: so few lines
// of y are gone along at once that they are fetched ahead.
template <int kRows, PanelUse kUse>
void multiply_tile(const PackedProduct& p, const PackedPiece& piece, int64_t row, float* packed_x) {
  PanelRows x{p.x + row * p.x_row + piece.k * p.x_step, p.x_row, p.x_step};
  if (packs_rows(p)) {
    pack_rows<kRows>(x.x, p.x_step, p.rows - row, piece.count, packed_x);
    x = {packed_x, 1, kRows};
  }
  const bool fetches_target = p.transposed_x && p.columns <= kColumnsFetchedAhead;
  if (p.transposed_x && row % (2 * kMostRows) == 0) {
    const float* ahead = p.x + row + kRowsFetchedAhead + piece.k * p.x_step;
    for (int64_t k = 0; k < piece.count; ++k) __builtin_prefetch(ahead + k * p.x_step);
  }
  const bool last = piece.k + piece.count == p.inner;
  const float* plain = p.w + piece.k * p.w_row + piece.column;
  PanelTarget t = target_of(p, row, piece.column, piece.k, last);
  for (int64_t c = 0; c < piece.columns; c += kWide) {
    float* panel = piece.panels + c * piece.count;
    const bool whole = piece.columns - c >= kWide;
    if (!whole) t = target_of(p, row, piece.column + c, piece.k, last);
    if (kUse == PanelUse::kMake && whole) {
      multiply_rows<kRows, kUse>(x, panel, plain + c, p.w_row, piece.count, t);
    } else if (kUse == PanelUse::kFetch) {
      const PlainSteps next = fetches_of(p, piece, row / kMostRows, c);
      multiply_rows<kRows, kUse>(x, panel, next.w, next.step, piece.count, t);
    } else {
      multiply_rows<kRows, PanelUse::kRead>(x, panel, nullptr, 0, piece.count, t);
    }
    if (fetches_target) fetch_target<kRows>(t, kRows * t.y_row);
    t.y += kWide;
    if (t.bias != nullptr) t.bias += kWide;
  }
}

// Pairs of vectors that so many rows meet at once: as many chains as hide each other's latency, and
// long runs of w.
constexpr int pairs_of_rows(int rows) { return rows == 1 ? 4 : rows == 2 ? 3 : rows == 3 ? 2 : 1; }

// kRows rows and 2 · kPairs vectors of columns from `column` on of a w that lies plain.
template <int kRows, int kPairs, bool kWhole>
void multiply_plain_rows(const PackedProduct& p, int64_t column, int64_t first, int64_t count) {
  constexpr int64_t kAhead = 16;  // steps
  Floats sums[kPairs][kRows][2];
#pragma GCC unroll 4
  for (int pair = 0; pair < kPairs; ++pair) {
#pragma GCC unroll 6
    for (int r = 0; r < kRows; ++r) sums[pair][r][0] = sums[pair][r][1] = Floats{};
  }
  const int64_t left = p.columns - column;
  const int64_t low = first_lanes_of(left), high = second_lanes_of(left);
  const float* x = p.x + first * p.x_step;
  const float* w = p.w + first * p.w_row + column;
  for (int64_t k = 0; k < count; ++k) {
#pragma GCC unroll 4
    for (int pair = 0; pair < kPairs; ++pair) {
      const float* from = w + pair * kWide;
      __builtin_prefetch(from + kAhead * p.w_row);
      const Floats a = kWhole ? load(from) : load_first(from, low);
      const Floats b = kWhole     ? load(from + kLanes)
                       : high > 0 ? load_first(from + kLanes, high)
                                  : Floats{};
#pragma GCC unroll 6
      for (int r = 0; r < kRows; ++r) {
        const Floats value = broadcast(x[r * p.x_row]);
        sums[pair][r][0] = multiply_add(value, a, sums[pair][r][0]);
        sums[pair][r][1] = multiply_add(value, b, sums[pair][r][1]);
      }
    }
    x += p.x_step;
    w += p.w_row;
  }
  const bool last = first + count == p.inner;
#pragma GCC unroll 4
  for (int pair = 0; pair < kPairs; ++pair) {
    const int64_t at = column + pair * kWide;
    finish_tile<kRows>(sums[pair], target_of(p, 0, at, first, last));
  }
}

// Few rows: w is read once, where it lies. The sums are those of packed panels.
template <int kRows>
void multiply_few(const PackedProduct& p) {
  constexpr int kPairs = pairs_of_rows(kRows);
  for (int64_t k = 0; k < p.inner; k += kPackedInner) {
    const int64_t count = p.inner - k < kPackedInner ? p.inner - k : kPackedInner;
    int64_t c = 0;
    for (; c + kPairs * kWide <= p.columns; c += kPairs * kWide) {
      multiply_plain_rows<kRows, kPairs, true>(p, c, k, count);
    }
    for (; c + kWide <= p.columns; c += kWide) {
      multiply_plain_rows<kRows, 1, true>(p, c, k, count);
    }
    if (c < p.columns) multiply_plain_rows<kRows, 1, false>(p, c, k, count);
  }
}

// All that tiles do not make.
inline void make_panels(const PackedProduct& p, const PackedPiece& piece) {
  if (p.transposed) {
    pack_transposed(p.w + piece.column * p.w_row + piece.k, p.w_row, piece.count, piece.columns,
                    piece.panels);
    return;
  }
  const int64_t from = piece.made ? 0 : piece.columns / kWide * kWide;
  pack_plain(p.w + piece.k * p.w_row + piece.column + from, p.w_row, piece.count,
             piece.columns - from, piece.panels + from * piece.count);
}

void multiply_packed(const PackedProduct& p, float* scratch) {
  if (!p.transposed && !p.transposed_x && p.rows > 0 && p.rows <= kMostRows) {
    return with_rows<kMostRows>(p.rows, [&](auto tile) { multiply_few<decltype(tile)::kRows>(p); });
  }
  const int64_t most_columns = packed_columns(kWide, p);
  float* panels = scratch + packed_row_floats(p);
  for (int64_t column = 0; column < p.columns; column += most_columns) {
    const int64_t columns = p.columns - column < most_columns ? p.columns - column : most_columns;
    for (int64_t k = 0; k < p.inner; k += kPackedInner) {
      const int64_t count = p.inner - k < kPackedInner ? p.inner - k : kPackedInner;
      PackedPiece piece = {column, columns, k, count, panels, !packs_on_the_way(p), nullptr};
      piece.next = next_piece(p, piece);
      make_panels(p, piece);
      for_each_tile<kMostRows>(p.rows, [&](int64_t row, auto tile) {
        constexpr int kRows = decltype(tile)::kRows;
        if (!piece.made && row == 0) {
          multiply_tile<kRows, PanelUse::kMake>(p, piece, row, scratch);
        } else if (piece.next != nullptr && row < kFetchTiles * kMostRows) {
          multiply_tile<kRows, PanelUse::kFetch>(p, piece, row, scratch);
        } else {
          multiply_tile<kRows, PanelUse::kRead>(p, piece, row, scratch);
        }
      });
    }
  }
}
