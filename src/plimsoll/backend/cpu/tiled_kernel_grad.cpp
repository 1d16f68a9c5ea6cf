// Gradients of convolutions' kernels in the processor's tiles (AMX): kernel_grad.h says what they
// are. All rows of an image that a piece takes are one run of steps, as a plane of a channel's copy
// has them; between two rows of outputs dy's panels have zeros, and behind the last.

#include "backend/cpu/kernel_grad.h"
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
#pragma GCC target("arch=x86-64-v4,avx512bf16,amx-tile,amx-bf16,prefer-vector-width=512")

namespace plimsoll::backend::cpu {
namespace {

#include "backend/cpu/paired_sums_impl.h"

#include "backend/cpu/paired_positions_impl.h"
#include "backend/cpu/tile_sums_impl.h"

constexpr int64_t kTurnedRows = 8;  // channels that are copied at a time

// Goes along a run of an image's steps.
struct RunWalk {
  const Piece& piece;
  const uint16_t* image;
  int64_t row = 0, column = 0;

  // dy of this step, nullptr between rows and behind the last; the next one.
  const uint16_t* next() {
    const uint16_t* here = row < piece.rows.count && column < piece.columns.count
                               ? image + row * piece.dy_row + column * piece.dy_column
                               : nullptr;
    if (++column == piece.columns.per_phase()) column = 0, ++row;
    return here;
  }
};

// Panels of the filters [first, first + filters).
void copy_runs(const Piece& p, int64_t first, int64_t filters, std::byte* panels) {
  const int64_t blocks = whole_blocks(p.run());
  for (int64_t f = 0; f < filters; f += kWide) {
    for (int64_t image = 0; image < p.images; ++image) {
      RunWalk walk = {p, p.dy + image * p.dy_image + first + f};
      for (int64_t pair = 0; pair < blocks * kBlockPairs; ++pair) {
        const uint16_t* even = walk.next();
        const uint16_t* odd = walk.next();
        interleave_steps(even, odd, filters - f, panels);
        panels += kPanelStep;
      }
    }
  }
}

template <int kHalves>
void sum_position(const Piece& p, const std::byte* tile, const std::byte* panel, float* sums) {
  const int64_t blocks = whole_blocks(p.run());
  const int64_t image_bytes = p.copied() / p.images * 2;
  clear_sums<kHalves>();
  for (int64_t image = 0; image < p.images; ++image) {
    add_blocks<kHalves>(tile + image * image_bytes, p.tiled_row() * 2, kBlockRowBytes, panel,
                        blocks);
    panel += blocks * kBlockPanelBytes;
  }
  take_sums<kHalves>(sums);
}

// `rows` channels from `channel` of the share on.
template <int kHalves>
void sum_block(const Piece& p, const GradShare& s, int64_t channel, int64_t rows) {
  alignas(64) float sums[kBlockRows * kPairedColumns];
  for (int64_t f = 0; f < s.filters; f += kWide) {
    const int64_t left = s.filters - f;
    const auto* panel = reinterpret_cast<const std::byte*>(s.panels + f * p.tiled_steps());
    float* dw = s.dw + channel * s.dw_row + f;
    for (int64_t i = 0; i < p.rows.size; ++i) {
      for (int64_t j = 0; j < p.columns.size; ++j) {
        const PairedTarget target = {.y = dw,
                                     .narrow_y = nullptr,
                                     .y_row = s.dw_row,
                                     .first = first_lanes_of(left),
                                     .second = second_lanes_of(left),
                                     .add = s.add,
                                     .bias = nullptr,
                                     .relu = false};
        fetch_rows(target, rows);
        sum_position<kHalves>(p, reinterpret_cast<const std::byte*>(s.tile + p.place_of(i, j)),
                              panel, sums);
        finish_rows(sums, rows, target);
        dw += s.dw_position;
      }
    }
  }
}

void copy_block(const Piece& p, const GradShare& s, int64_t channel, int64_t rows) {
  // A run's last block reads behind its end: what lies there is multiplied by zeros.
  const int64_t behind = p.tiled_row() - p.copied();
  for (int64_t row = 0; row < rows; row += kTurnedRows) {
    const int64_t now = rows - row < kTurnedRows ? rows - row : kTurnedRows;
    with_rows<kTurnedRows>(now, [&](auto turned) {
      copy_tile<decltype(turned)::kRows>(p, s.first_channel + channel + row, behind,
                                         s.tile + row * p.tiled_row(), p.tiled_row());
    });
  }
}

void add_tiled_piece(const Piece& p, const GradShare& s) {
  const TilesInUse tiles;
  copy_runs(p, s.first_filter, s.filters, reinterpret_cast<std::byte*>(s.panels));
  for (int64_t channel = 0; channel < s.channels; channel += kBlockRows) {
    const int64_t left = s.channels - channel;
    const int64_t rows = left < kBlockRows ? left : kBlockRows;
    copy_block(p, s, channel, rows);
    finish_writes();
    if (rows > kHalfRows) {
      sum_block<2>(p, s, channel, rows);
    } else {
      sum_block<1>(p, s, channel, rows);
    }
  }
}

}  // namespace
}  // namespace plimsoll::backend::cpu

#pragma GCC pop_options
#pragma GCC diagnostic pop
#undef PLIMSOLL_LANES

namespace plimsoll::backend::cpu {
const PairedPieceFunction kTiledPiece = &add_tiled_piece;
}  // namespace plimsoll::backend::cpu
#endif
