// One factor of a product as panels: two vectors of columns wide, pair by pair of steps, for loops
// of 16 lanes after paired_sums_inl.h and transpose_inl.h. A panel has `pairs` pairs; those
// after the last step are zeros.

inline void clear_after(int64_t full, int64_t columns, int64_t pairs, std::byte* panels) {
  if (full == pairs) return;
  for (int64_t c = 0; c < columns; c += kWide) {
    __builtin_memset(panels + c * pairs * 4 + full * kPanelStep, 0,
                     static_cast<size_t>((pairs - full) * kPanelStep));
  }
}

// Steps between what is packed and what is fetched: rows lie too far apart to be foreseen.
constexpr int64_t kStepsAhead = 16;

// w[k · w_row + c]: the columns of a step lie side by side.
inline void pack_plain(const uint16_t* w, int64_t w_row, int64_t steps, int64_t columns,
                       int64_t pairs, std::byte* panels) {
  constexpr int64_t kAtOnce = 4 * kWide;
  const int64_t full = (steps + 1) / 2;
  for (int64_t from = 0; from < columns; from += kAtOnce) {
    const int64_t to = columns - from < kAtOnce ? columns : from + kAtOnce;
    for (int64_t k = 0; k < full; ++k) {
      const uint16_t* first = w + 2 * k * w_row;
      const uint16_t* second = 2 * k + 1 < steps ? first + w_row : nullptr;
      for (int64_t c = from; c < to; c += kWide) {
        __builtin_prefetch(first + kStepsAhead * w_row + c);
        __builtin_prefetch(first + (kStepsAhead + 1) * w_row + c);
        interleave_steps(first + c, second == nullptr ? nullptr : second + c, to - c,
                         panels + c * pairs * 4 + k * kPanelStep);
      }
    }
  }
  clear_after(full, columns, pairs, panels);
}

// w[c · w_row + k]: a column's steps lie side by side, and its pairs are words, which are
// transposed as float32 numbers are.
inline void pack_transposed(const uint16_t* w, int64_t w_row, int64_t steps, int64_t columns,
                            int64_t pairs, std::byte* panels) {
  const int64_t full = (steps + 1) / 2;
  for (int64_t c = 0; c < columns; c += kLanes) {
    const int64_t lanes = columns - c < kLanes ? columns - c : kLanes;
    std::byte* panel = panels + c / kWide * kWide * pairs * 4 + c % kWide * 4;
    const uint16_t* from = w + c * w_row;
    int64_t k = 0;
    if (lanes == kLanes && w_row % 2 == 0) {
      for (; 2 * (k + kLanes) <= steps; k += kLanes) {
        transpose_tile(reinterpret_cast<const float*>(from + 2 * k), w_row / 2, kLanes,
                       reinterpret_cast<float*>(panel + k * kPanelStep), kWide);
      }
    }
    for (; k < full; ++k) {
      uint32_t words[kLanes] = {};
      for (int64_t lane = 0; lane < lanes; ++lane) {
        const uint16_t* pair = from + lane * w_row + 2 * k;
        words[lane] = pair[0];
        if (2 * k + 1 < steps) words[lane] |= static_cast<uint32_t>(pair[1]) << 16;
      }
      __builtin_memcpy(panel + k * kPanelStep, words, sizeof(words));
    }
  }
  clear_after(full, columns, pairs, panels);
  // A last panel of one vector: the other is multiplied too.
  if ((columns + kLanes - 1) / kLanes % 2 == 0) return;
  std::byte* panel = panels + columns / kWide * kWide * pairs * 4 + 64;
  for (int64_t k = 0; k < pairs; ++k) {
    _mm512_storeu_si512(panel + k * kPanelStep, _mm512_setzero_si512());
  }
}

// A piece's panels: columns [column, column + columns), steps from k on.
struct PairedPiece {
  int64_t column, columns, k, steps;
  int64_t pairs;  // of a panel
  const std::byte* panels;
};

// Columns of a panel from `c` of the piece on, rows from `row` on.
inline PairedTarget target_of(const PairedProduct& p, const PairedPiece& piece, int64_t row,
                              int64_t c) {
  const int64_t column = piece.column + c;
  const int64_t at = row * p.y_row + column;
  const bool last = piece.k + piece.steps == p.inner;
  return {.y = p.bf16 ? nullptr : p.y + at,
          .bf16_y = p.bf16 ? p.bf16_y + at : nullptr,
          .y_row = p.y_row,
          .first = first_lanes_of(piece.columns - c),
          .second = second_lanes_of(piece.columns - c),
          .add = p.add || piece.k > 0,
          .bias = last && p.bias != nullptr ? p.bias + column : nullptr,
          .relu = last && p.relu};
}

// multiply(piece) for all pieces: at most `most_columns` at once, packed to `panels`, which have
// pairs_of(steps) pairs each.
template <typename PairsOf, typename Multiply>
void for_each_piece(const PairedProduct& p, int64_t most_columns, std::byte* panels,
                    const PairsOf& pairs_of, const Multiply& multiply) {
  const int64_t most_steps = piece_steps(p);
  for (int64_t column = 0; column < p.columns; column += most_columns) {
    const int64_t columns = p.columns - column < most_columns ? p.columns - column : most_columns;
    for (int64_t k = 0; k < p.inner; k += most_steps) {
      const int64_t steps = p.inner - k < most_steps ? p.inner - k : most_steps;
      const PairedPiece piece = {column, columns, k, steps, pairs_of(steps), panels};
      if (p.transposed) {
        pack_transposed(p.w + column * p.w_row + k, p.w_row, steps, columns, piece.pairs, panels);
      } else {
        pack_plain(p.w + k * p.w_row + column, p.w_row, steps, columns, piece.pairs, panels);
      }
      multiply(piece);
    }
  }
}

// All of a product by multiply_pieces(product, scratch). Sums that come in pieces and are rounded
// are kept in scratch, a panel's columns at a time, until they are whole.
template <typename MultiplyPieces>
void multiply_all(const PairedProduct& p, std::byte* scratch,
                  const MultiplyPieces& multiply_pieces) {
  if (!keeps_sums(p)) return multiply_pieces(p, scratch);
  auto* sums = reinterpret_cast<float*>(scratch);
  for (int64_t column = 0; column < p.columns; column += kWide) {
    const int64_t columns = p.columns - column < kWide ? p.columns - column : kWide;
    PairedProduct part = p;
    part.columns = columns;
    part.w += column * (p.transposed ? p.w_row : 1);
    part.y = sums;
    part.y_row = kWide;
    part.bf16 = part.add = part.relu = false;
    part.bias = nullptr;
    multiply_pieces(part, scratch + kept_bytes(p));
    finish_rows(sums, p.rows, target_of(p, {column, columns, 0, p.inner, 0, nullptr}, 0, 0));
  }
}
