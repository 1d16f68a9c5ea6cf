// Gradients of convolutions' kernels in the processor's tiles (AMX): kernel_grad.h says what they
// are. For each position of the kernel a piece is a product, filters × steps times steps ×
// channels:
//
//   rows     dy filter by filter, each image one run of steps from its first output to its last,
//            with zeros between two rows of outputs and after the last
//   panels   32 channels of the source as its copy has them, in pairs of positions
//
// A window's position moves the run along the source. From an even place on its pairs are those of
// one copy, from an odd one those of a second copy that begins a position later: so both factors
// are read in whole lines, whatever the position.

#include "backend/cpu/conv/kernel_grad.h"
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
#pragma GCC target("arch=x86-64-v4,avx512bf16,amx-tile,amx-bf16,prefer-vector-width=512")

namespace plimsoll::backend::cpu {
namespace {

#include "backend/cpu/product/paired_sums_inl.h"
#include "backend/cpu/simd/transpose_inl.h"

#include "backend/cpu/product/tile_sums_inl.h"

using Piece = KernelGradPiece<uint16_t>;
using GradShare = KernelGradShare<uint16_t>;

// Positions between what is read and what is fetched: each lies in a line of its own, or several.
constexpr int64_t kAhead = 16;

// Goes along a run of an image's steps.
struct RunWalk {
  const Piece& piece;
  const uint16_t* image;
  int64_t row = 0, column = 0;

  // dy of this step, nullptr between rows and after the last; goes on to the next.
  const uint16_t* next() {
    const uint16_t* here = row < piece.rows.count && column < piece.columns.count
                               ? image + row * piece.dy_row + column * piece.dy_column
                               : nullptr;
    if (here != nullptr) __builtin_prefetch(here + kAhead * piece.dy_column);
    if (++column == piece.columns.per_phase()) column = 0, ++row;
    return here;
  }
};

// Blocks of the filters [first, first + filters), image by image.
void transpose_gradient(const Piece& p, int64_t first, int64_t filters, std::byte* to) {
  const int64_t blocks = whole_blocks(p.run());
  for (int64_t f = 0; f < filters; f += kBlockRows) {
    const int64_t rows = filters - f < kBlockRows ? filters - f : kBlockRows;
    for (int64_t image = 0; image < p.images; ++image) {
      RunWalk walk = {p, p.dy + image * p.dy_image + first + f};
      for (int64_t k = 0; k < blocks; ++k) {
        transpose_block([&] { return walk.next(); }, rows, to);
        to += kBlockBytes;
      }
    }
  }
}

// next(where the channels of a position are, or nullptr) for all positions of a source's copy.
template <typename Next>
void for_each_position(const Piece& p, int64_t channel, const Next& next) {
  for (int64_t image = 0; image < p.images; ++image) {
    const uint16_t* x = p.x + image * p.x_image + channel;
    for (int64_t row_phase = 0; row_phase < p.rows.phases(); ++row_phase) {
      for (int64_t phase = 0; phase < p.columns.phases(); ++phase) {
        for (int64_t i = 0; i < p.rows.per_phase(); ++i) {
          const int64_t row = p.rows.first + row_phase + i * p.rows.stride;
          const bool inside = row >= 0 && row < p.rows.input;
          int64_t column = p.columns.first + phase;
          for (int64_t j = 0; j < p.columns.per_phase(); ++j) {
            const bool there = inside && column >= 0 && column < p.columns.input;
            const uint16_t* here = x + row * p.x_row + column * p.x_column;
            if (there) __builtin_prefetch(here + kAhead * p.columns.stride * p.x_column);
            next(there ? here : nullptr);
            column += p.columns.stride;
          }
        }
      }
    }
  }
}

// Both copies of up to 32 channels.
void copy_source(const Piece& p, int64_t channel, int64_t channels, std::byte* even) {
  std::byte* odd = even + p.tiled_pairs() * kPanelStep;
  const uint16_t* before = nullptr;
  int64_t count = 0;
  const auto next = [&](const uint16_t* here) {
    if (count > 0) {
      const int64_t pair = (count - 1) / 2;
      interleave_steps(before, here, channels, (count % 2 != 0 ? even : odd) + pair * kPanelStep);
    }
    before = here;
    ++count;
  };
  for_each_position(p, channel, next);
  // What a run's last block reads after the copy is multiplied by zeros.
  while (count <= 2 * p.tiled_pairs()) next(nullptr);
}

// One position of the kernel: [filter][channel].
template <int kHalves>
void sum_position(const Piece& p, const std::byte* rows, const std::byte* copies, int64_t place,
                  float* sums) {
  const int64_t blocks = whole_blocks(p.run());
  const int64_t image_places = p.copied() / p.images;
  clear_sums<kHalves>();
  for (int64_t image = 0; image < p.images; ++image) {
    const int64_t at = place + image * image_places;
    const int64_t pair = at / 2 + at % 2 * p.tiled_pairs();
    add_blocks<kHalves>(rows, kBlockRowBytes, kBlockBytes, copies + pair * kPanelStep, blocks);
    rows += blocks * kBlockBytes;
  }
  take_sums<kHalves>(sums);
}

// [channel][filter] of [filter][channel].
inline void transpose_sums(const float* sums, float* transposed) {
  for (int64_t r = 0; r < kBlockRows; r += kLanes) {
    for (int64_t c = 0; c < kWide; c += kLanes) {
      transpose_tile(sums + r * kWide + c, kWide, kLanes, transposed + c * kWide + r, kWide);
    }
  }
}

// A block of filters from `filter` of the share on and of channels from `channel` on, whose copies
// the share's tile holds.
template <int kHalves>
void sum_block(const Piece& p, const GradShare& s, int64_t filter, int64_t channel) {
  alignas(64) float sums[kBlockRows * kPairedColumns] = {};
  alignas(64) float transposed[kBlockRows * kPairedColumns];
  const int64_t left = s.filters - filter;
  const int64_t channels = s.channels - channel < kWide ? s.channels - channel : kWide;
  const auto* rows = reinterpret_cast<const std::byte*>(s.panels + filter * p.tiled_steps());
  const auto* copies = reinterpret_cast<const std::byte*>(s.tile);
  float* dw = s.dw + channel * s.dw_row + filter;
  for (int64_t i = 0; i < p.rows.size; ++i) {
    for (int64_t j = 0; j < p.columns.size; ++j) {
      const PairedTarget target = {.y = dw,
                                   .bf16_y = nullptr,
                                   .y_row = s.dw_row,
                                   .first = first_lanes_of(left),
                                   .second = second_lanes_of(left),
                                   .add = s.add,
                                   .bias = nullptr,
                                   .relu = false};
      fetch_rows(target, channels);
      sum_position<kHalves>(p, rows, copies, p.place_of(i, j), sums);
      transpose_sums(sums, transposed);
      finish_rows(transposed, channels, target);
      dw += s.dw_position;
    }
  }
}

void add_tiled_piece(const Piece& p, const GradShare& s) {
  const TilesInUse tiles;
  transpose_gradient(p, s.first_filter, s.filters, reinterpret_cast<std::byte*>(s.panels));
  for (int64_t channel = 0; channel < s.channels; channel += kWide) {
    const int64_t channels = s.channels - channel < kWide ? s.channels - channel : kWide;
    copy_source(p, s.first_channel + channel, channels, reinterpret_cast<std::byte*>(s.tile));
    finish_writes();
    for (int64_t filter = 0; filter < s.filters; filter += kBlockRows) {
      if (s.filters - filter > kHalfRows) {
        sum_block<2>(p, s, filter, channel);
      } else {
        sum_block<1>(p, s, filter, channel);
      }
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
