#include "backend/cpu/conv/kernel_grad.h"
#include "backend/cpu/product/paired_product.h"
#include "backend/cpu/product/tiled_product.h"

#if PLIMSOLL_HAS_VARIANTS
// The compiler takes what its own intrinsics leave undefined for a mistake of ours.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#pragma GCC diagnostic ignored "-Wuninitialized"
#include <immintrin.h>

// Nothing of the standard library's templates here: what another file shares would want the set.
#define PLIMSOLL_LANES 16
#pragma GCC push_options
#pragma GCC target("arch=x86-64-v4,avx512bf16,prefer-vector-width=512")

namespace plimsoll::backend::cpu {
namespace {

#include "backend/cpu/product/paired_sums_inl.h"

using Piece = KernelGradPiece<uint16_t>;
using GradShare = KernelGradShare<uint16_t>;

inline __mmask8 first_halfs(int64_t count) {
  return static_cast<__mmask8>((uint32_t{1} << count) - 1);
}

// kRows channels of up to 8 positions, `step` numbers apart: each channel's one after the other.
template <int kRows>
void transpose_positions(const uint16_t* from, int64_t step, int64_t count, uint16_t* to,
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
    transpose_positions<kRows>(row + (first + i * columns.stride) * column, step, now, to + i,
                               to_row);
  }
  clear_positions<kRows>(count - end, to + end, to_row);
}

// kRows channels from `channel` on, to_row numbers apart; `after` zeros follow them.
template <int kRows>
void copy_tile(const Piece& p, int64_t channel, int64_t after, uint16_t* to, int64_t to_row) {
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
  clear_positions<kRows>(after, to, to_row);
}

// Panels of the filters [first, first + filters), lanes after the last are zeros.
inline void copy_gradient(const Piece& p, int64_t first, int64_t filters, std::byte* panels) {
  for (int64_t f = 0; f < filters; f += kWide) {
    for (int64_t image = 0; image < p.images; ++image) {
      for (int64_t row = 0; row < p.rows.count; ++row) {
        const uint16_t* from = p.dy + image * p.dy_image + row * p.dy_row + first + f;
        for (int64_t column = 0; column < p.columns.count; column += 2) {
          const bool both = column + 1 < p.columns.count;
          interleave_steps(from, both ? from + p.dy_column : nullptr, filters - f, panels);
          from += 2 * p.dy_column;
          panels += kPanelStep;
        }
      }
    }
  }
}

// Where one position of the kernel reads a tile, in bytes.
struct TileWalk {
  int64_t images, rows, pairs;
  int64_t image, row;
  int64_t channel;
};

template <int kRows>
void sum_position(const std::byte* tile, const TileWalk& w, const std::byte* panel,
                  const PairedTarget& t) {
  fetch_rows(t, kRows);
  Floats sums[kRows][2];
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) sums[r][0] = sums[r][1] = Floats{};
  for (int64_t image = 0; image < w.images; ++image) {
    for (int64_t row = 0; row < w.rows; ++row) {
      const std::byte* x = tile + image * w.image + row * w.row;
      for (int64_t pair = 0; pair < w.pairs; ++pair) {
        add_step(sums, panel, [&](int r) { return broadcast_pair(x + r * w.channel); });
        x += 4;
        panel += kPanelStep;
      }
    }
  }
  finish_tile(sums, t);
}

// kRows channels from `channel` of the share on.
template <int kRows>
void sum_tile(const Piece& p, const GradShare& s, int64_t channel) {
  // One after them is read with the last of an odd number of columns.
  copy_tile<kRows>(p, s.first_channel + channel, 1, s.tile, p.paired_row());
  const TileWalk walk = {p.images,
                         p.rows.count,
                         (p.columns.count + 1) / 2,
                         p.copied() / p.images * 2,
                         p.columns.per_phase() * 2,
                         p.paired_row() * 2};
  for (int64_t f = 0; f < s.filters; f += kWide) {
    const int64_t left = s.filters - f;
    const auto* panel = reinterpret_cast<const std::byte*>(s.panels + f * p.paired_steps());
    float* dw = s.dw + channel * s.dw_row + f;
    for (int64_t i = 0; i < p.rows.size; ++i) {
      for (int64_t j = 0; j < p.columns.size; ++j) {
        sum_position<kRows>(reinterpret_cast<const std::byte*>(s.tile + p.place_of(i, j)), walk,
                            panel,
                            {.y = dw,
                             .bf16_y = nullptr,
                             .y_row = s.dw_row,
                             .first = first_lanes_of(left),
                             .second = second_lanes_of(left),
                             .add = s.add,
                             .bias = nullptr,
                             .relu = false});
        dw += s.dw_position;
      }
    }
  }
}

void add_paired_piece(const Piece& p, const GradShare& s) {
  copy_gradient(p, s.first_filter, s.filters, reinterpret_cast<std::byte*>(s.panels));
  for_each_tile<kPairedTileRows>(s.channels, [&](int64_t channel, auto tile) {
    sum_tile<decltype(tile)::kRows>(p, s, channel);
  });
}

}  // namespace
}  // namespace plimsoll::backend::cpu

#pragma GCC pop_options
#pragma GCC diagnostic pop
#undef PLIMSOLL_LANES

namespace plimsoll::backend::cpu {
PairedPieceFunction pick_paired_piece(const CpuOptions& options) {
  return options.tiles ? kTiledPiece : options.pairs ? &add_paired_piece : nullptr;
}
}  // namespace plimsoll::backend::cpu
#else
namespace plimsoll::backend::cpu {
PairedPieceFunction pick_paired_piece(const CpuOptions&) { return nullptr; }
}  // namespace plimsoll::backend::cpu
#endif
