// Copies of a source's channels, one behind the other, for kernel gradients of bfloat16 numbers:
// positions that windows reach side by side, with their padding. Part of loops of 16 lanes.

using Piece = KernelGradPiece<uint16_t>;
using GradShare = KernelGradShare<uint16_t>;

inline __mmask8 first_halfs(int64_t count) {
  return static_cast<__mmask8>((uint32_t{1} << count) - 1);
}

// kRows channels of up to 8 positions, `step` numbers apart: each channel's one behind the other.
template <int kRows>
void turn_positions(const uint16_t* from, int64_t step, int64_t count, uint16_t* to,
                    int64_t to_row) {
  __m128i p[8];
  for (int64_t i = 0; i < 8; ++i) {
    p[i] = i < count ? _mm_maskz_loadu_epi16(first_halfs(kRows), from + i * step)
                     : _mm_setzero_si128();
  }
  __m128i a[8];  // pairs of positions: channels 0 to 3 and 4 to 7
  for (int i = 0; i < 4; ++i) {
    a[2 * i] = _mm_unpacklo_epi16(p[2 * i], p[2 * i + 1]);
    a[2 * i + 1] = _mm_unpackhi_epi16(p[2 * i], p[2 * i + 1]);
  }
  __m128i b[8];  // fours of positions: of positions 0 to 3, then 4 to 7, channels 2i and 2i + 1
  for (int half = 0; half < 2; ++half) {
    const __m128i* in = a + 4 * half;
    b[4 * half] = _mm_unpacklo_epi32(in[0], in[2]);
    b[4 * half + 1] = _mm_unpackhi_epi32(in[0], in[2]);
    b[4 * half + 2] = _mm_unpacklo_epi32(in[1], in[3]);
    b[4 * half + 3] = _mm_unpackhi_epi32(in[1], in[3]);
  }
  const __mmask8 mask = first_halfs(count);
  for (int r = 0; r < kRows; ++r) {
    const __m128i row = r % 2 == 0 ? _mm_unpacklo_epi64(b[r / 2], b[4 + r / 2])
                                   : _mm_unpackhi_epi64(b[r / 2], b[4 + r / 2]);
    _mm_mask_storeu_epi16(to + r * to_row, mask, row);
  }
}

// Zeros in `count` positions of each channel.
template <int kRows>
void clear_positions(int64_t count, uint16_t* to, int64_t to_row) {
  for (int r = 0; r < kRows; ++r) {
    __builtin_memset(to + r * to_row, 0, static_cast<size_t>(count) * sizeof(uint16_t));
  }
}

// One row of one phase: positions from `first` on, a stride apart.
template <int kRows>
void copy_positions(const uint16_t* row, int64_t column, const PieceAxis& columns, int64_t first,
                    uint16_t* to, int64_t to_row) {
  const int64_t count = columns.per_phase();
  int64_t before = first < 0 ? (-first + columns.stride - 1) / columns.stride : 0;
  if (before > count) before = count;
  int64_t end =
      columns.input > first ? (columns.input - first + columns.stride - 1) / columns.stride : 0;
  if (end > count) end = count;
  if (end < before) end = before;
  clear_positions<kRows>(before, to, to_row);
  const int64_t step = columns.stride * column;
  for (int64_t i = before; i < end; i += 8) {
    const int64_t now = end - i < 8 ? end - i : 8;
    turn_positions<kRows>(row + (first + i * columns.stride) * column, step, now, to + i, to_row);
  }
  clear_positions<kRows>(count - end, to + end, to_row);
}

// kRows channels from `channel` on, to_row numbers apart; `behind` zeros follow them.
template <int kRows>
void copy_tile(const Piece& p, int64_t channel, int64_t behind, uint16_t* to, int64_t to_row) {
  const int64_t per_phase = p.columns.per_phase();
  for (int64_t image = 0; image < p.images; ++image) {
    const uint16_t* x = p.x + image * p.x_image + channel;
    for (int64_t row_phase = 0; row_phase < p.rows.phases(); ++row_phase) {
      for (int64_t phase = 0; phase < p.columns.phases(); ++phase) {
        for (int64_t i = 0; i < p.rows.per_phase(); ++i) {
          const int64_t row = p.rows.first + row_phase + i * p.rows.stride;
          if (row >= 0 && row < p.rows.input) {
            copy_positions<kRows>(x + row * p.x_row, p.x_column, p.columns, p.columns.first + phase,
                                  to, to_row);
          } else {
            clear_positions<kRows>(per_phase, to, to_row);
          }
          to += per_phase;
        }
      }
    }
  }
  clear_positions<kRows>(behind, to, to_row);
}
