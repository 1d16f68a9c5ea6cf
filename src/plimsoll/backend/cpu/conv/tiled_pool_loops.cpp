#include "backend/cpu/conv/tiled_conv_pool.h"
#include "backend/cpu/product/paired_pieces.h"
#include "backend/cpu/product/tiled_product.h"

namespace plimsoll::backend::cpu {

int64_t tiled_panel_bytes(const TiledSource& s) {
  const int64_t panels = (s.channels + kPairedColumns - 1) / kPairedColumns;
  return panels * s.kernel_rows * s.kernel_columns * s.filters * kPairedColumns * 2;
}

}  // namespace plimsoll::backend::cpu

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

#include "backend/cpu/product/paired_panels_inl.h"
#include "backend/cpu/product/tile_sums_inl.h"

inline __mmask32 first_halves(int64_t count) {
  return count >= 32 ? ~__mmask32{0} : static_cast<__mmask32>((uint32_t{1} << count) - 1);
}

void spread_row(const SpreadRow& s) {
  for (int64_t f = 0; f < s.to_position; f += kWide) {
    const __mmask32 here = first_halves(s.filters > f ? s.filters - f : 0);
    const __mmask32 room = first_halves(s.to_position - f);
    uint16_t* to = s.to + f;
    for (int64_t w = 0; w < s.windows; ++w) {
      const int64_t at = w * s.all_filters + f;
      const __m256i winners = _mm256_maskz_loadu_epi8(here, s.winners + at);
      const __m512i dy = _mm512_maskz_loadu_epi16(here, s.dy + at);
      for (int64_t c = 0; c < s.pool_columns; ++c) {
        const auto tap = static_cast<char>(s.first_tap + c);
        const __mmask32 wins = _mm256_mask_cmpeq_epi8_mask(here, winners, _mm256_set1_epi8(tap));
        _mm512_mask_storeu_epi16(to, room, _mm512_maskz_mov_epi16(wins, dy));
        to += s.to_position;
      }
    }
  }
}

void add_bias(const SpreadRow& s, float* sums) {
  const auto last_tap = static_cast<char>(s.first_tap);
  for (int64_t f = 0; f < s.filters; f += kLanes) {
    const int64_t lanes = s.filters - f < kLanes ? s.filters - f : kLanes;
    const auto here = static_cast<__mmask16>((uint32_t{1} << lanes) - 1);
    Floats sum = load_first(sums + f, lanes);
    for (int64_t w = 0; w < s.windows; ++w) {
      const int64_t at = w * s.all_filters + f;
      const __m128i winners = _mm_maskz_loadu_epi8(here, s.winners + at);
      const __mmask16 wins = _mm_mask_cmplt_epu8_mask(here, winners, _mm_set1_epi8(last_tap));
      const __m256i dy = _mm256_maskz_loadu_epi16(wins, s.dy + at);
      sum += widened(reinterpret_cast<Halves>(dy));
    }
    store_first(sums + f, sum, lanes);
  }
}

void pack_kernel(const TiledSource& s, const uint16_t* kernel, int64_t filters, std::byte* panels) {
  for (int64_t c = 0; c < s.channels; c += kWide) {
    const int64_t columns = s.channels - c < kWide ? s.channels - c : kWide;
    for (int64_t tap = 0; tap < s.kernel_rows * s.kernel_columns; ++tap) {
      pack_transposed(kernel + (tap * s.channels + c) * filters, filters, filters, columns,
                      s.filters / 2, panels);
      panels += s.filters * kPairedColumns * 2;
    }
  }
}

// Up to 32 positions of a row of dx and a panel of channels.
template <int kHalves>
void sum_positions(const TiledSource& s, const uint16_t* band, const std::byte* panel,
                   float* sums) {
  const int64_t position = s.filters * 2;
  const int64_t blocks = s.filters / kBlockSteps;
  clear_sums<kHalves>();
  for (int64_t i = 0; i < s.kernel_rows; ++i) {
    // The kernel's first row meets the gradient's last.
    const uint16_t* row = band + (s.kernel_rows - 1 - i) * s.band_row;
    for (int64_t j = 0; j < s.kernel_columns; ++j) {
      const uint16_t* from = row + (s.kernel_columns - 1 - j) * s.filters;
      add_blocks<kHalves>(reinterpret_cast<const std::byte*>(from), position, kBlockRowBytes, panel,
                          blocks);
      panel += blocks * kBlockPanelBytes;
    }
  }
  take_sums<kHalves>(sums);
}

void source_gradient(const TiledSource& s) {
  const TilesInUse tiles;
  finish_writes();
  alignas(64) float sums[kBlockRows * kPairedColumns];
  const int64_t panel_bytes =
      s.kernel_rows * s.kernel_columns * (s.filters / kBlockSteps) * kBlockPanelBytes;
  for (int64_t row = 0; row < s.rows; ++row) {
    for (int64_t column = 0; column < s.columns; column += kBlockRows) {
      const int64_t left = s.columns - column;
      const int64_t count = left < kBlockRows ? left : kBlockRows;
      const uint16_t* band = s.band + row * s.band_row + column * s.filters;
      const std::byte* panel = s.panels;
      for (int64_t c = 0; c < s.channels; c += kWide) {
        const PairedTarget target = {.y = nullptr,
                                     .bf16_y = s.dx + row * s.dx_row + column * s.channels + c,
                                     .y_row = s.channels,
                                     .first = first_lanes_of(s.channels - c),
                                     .second = second_lanes_of(s.channels - c),
                                     .add = false,
                                     .bias = nullptr,
                                     .relu = false};
        if (count > kHalfRows) {
          sum_positions<2>(s, band, panel, sums);
        } else {
          sum_positions<1>(s, band, panel, sums);
        }
        finish_rows(sums, count, target);
        panel += panel_bytes;
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
const TiledPoolLoops* tiled_pool_loops(const CpuOptions& options) {
  static constexpr TiledPoolLoops kLoops = {&spread_row, &add_bias, &pack_kernel, &source_gradient};
  return options.tiles ? &kLoops : nullptr;
}
}  // namespace plimsoll::backend::cpu
#else
namespace plimsoll::backend::cpu {
const TiledPoolLoops* tiled_pool_loops(const CpuOptions&) { return nullptr; }
}  // namespace plimsoll::backend::cpu
#endif
