#include "backend/cpu/kernel_grad.h"
#include "backend/cpu/paired_product.h"
#include "backend/cpu/tiled_product.h"

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

#include "backend/cpu/paired_sums_impl.h"

#include "backend/cpu/paired_positions_impl.h"

// Panels of the filters [first, first + filters), lanes behind the last are zeros.
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
  fetch_target<kRows>(t);
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
  // One behind them is read with the last of an odd number of columns.
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
                             .narrow_y = nullptr,
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
