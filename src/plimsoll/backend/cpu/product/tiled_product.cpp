// Products of bfloat16 matrices in the processor's tiles (AMX): what paired_product.h promises, 32
// rows, 32 columns and 32 steps at a time. Rows are read where they lie, but for those of a
// transposed x, of a last block, and the last steps of a piece, which are copied and filled up with
// zeros.
//
//   scratch  [sums of a panel's columns, where there are very many steps][rows of x, block by
//            block][panels]

#include "backend/cpu/product/tiled_product.h"

#include <algorithm>

#include "backend/cpu/product/paired_pieces.h"

namespace plimsoll::backend::cpu {
namespace {

// Bytes of all panels of a piece, for the second cache.
constexpr int64_t kPanelsBytes = 512 << 10;

constexpr int64_t panel_bytes(const PairedProduct& p) {
  return std::max<int64_t>(whole_blocks(piece_steps(p)), 1) * kBlockPanelBytes;
}
constexpr int64_t panels_at_once(const PairedProduct& p) {
  return std::min((p.columns + kPairedColumns - 1) / kPairedColumns,
                  std::max<int64_t>(kPanelsBytes / panel_bytes(p), 1));
}
constexpr int64_t packed_row_bytes(const PairedProduct& p) {
  return whole_blocks(piece_steps(p)) * kBlockBytes;
}
[[maybe_unused]] int64_t tiled_bytes(const PairedProduct& p) {
  return kept_bytes(p) + packed_row_bytes(p) + panels_at_once(p) * panel_bytes(p);
}

}  // namespace
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

// Rows that lie apart, from step `from` on, in blocks; zeros fill up the last block's steps and
// rows.
inline void pack_rows(const uint16_t* x, int64_t x_row, int64_t rows, int64_t steps,
                      std::byte* to) {
  for (int64_t k = 0; k < steps; k += kBlockSteps) {
    const int64_t left = steps - k;
    const __mmask32 mask =
        left >= kBlockSteps ? ~__mmask32{0} : static_cast<__mmask32>((uint32_t{1} << left) - 1);
    for (int64_t r = 0; r < kBlockRows; ++r) {
      const __m512i row =
          r < rows ? _mm512_maskz_loadu_epi16(mask, x + r * x_row + k) : _mm512_setzero_si512();
      _mm512_storeu_si512(to + r * kBlockRowBytes, row);
    }
    to += kBlockBytes;
  }
}

// Rows that lie side by side, x_step from step to step.
inline void pack_transposed_rows(const uint16_t* x, int64_t x_step, int64_t rows, int64_t steps,
                                 std::byte* to) {
  for (int64_t k = 0; k < steps; k += kBlockSteps) {
    int64_t step = k;
    const auto next = [&]() -> const uint16_t* {
      if (step == steps) return nullptr;
      const uint16_t* here = x + step++ * x_step;
      __builtin_prefetch(here + kBlockSteps * x_step);
      return here;
    };
    transpose_block(next, rows, to);
    to += kBlockBytes;
  }
}

// Where a block's rows are read: whole blocks of steps, then perhaps a last that was filled up.
struct BlockRows {
  const std::byte* x;
  int64_t row, step;  // bytes from row to row, and from a block of steps to the next
  int64_t blocks;
  const std::byte* last;  // nullptr: none
};

inline BlockRows find_rows(const PairedProduct& p, const PairedPiece& piece, int64_t row,
                           int64_t rows, std::byte* packed) {
  const uint16_t* x = p.x + row * p.x_row + piece.k * p.x_step;
  constexpr int64_t kStep = kBlockBytes;
  if (p.transposed_x) {
    pack_transposed_rows(x, p.x_step, rows, piece.steps, packed);
    return {packed, kBlockRowBytes, kStep, whole_blocks(piece.steps), nullptr};
  }
  if (rows < kBlockRows) {
    pack_rows(x, p.x_row, rows, piece.steps, packed);
    return {packed, kBlockRowBytes, kStep, whole_blocks(piece.steps), nullptr};
  }
  const int64_t blocks = piece.steps / kBlockSteps;
  const int64_t left = piece.steps % kBlockSteps;
  if (left > 0) pack_rows(x + blocks * kBlockSteps, p.x_row, rows, left, packed);
  return {reinterpret_cast<const std::byte*>(x), p.x_row * 2, kBlockRowBytes, blocks,
          left > 0 ? packed : nullptr};
}

// Rows that are read where they lie are too many streams for the processor to foresee.
inline void fetch_next_rows(const PairedProduct& p, const PairedPiece& piece, int64_t row) {
  if (p.transposed_x) return;
  const int64_t end = p.rows - row < kBlockRows ? p.rows : row + kBlockRows;
  for (; row < end; ++row) {
    const uint16_t* x = p.x + row * p.x_row + piece.k;
    for (int64_t k = 0; k < piece.steps; k += kBlockSteps) __builtin_prefetch(x + k, 0, 2);
  }
}

template <int kHalves>
void multiply_rows(const PairedProduct& p, const PairedPiece& piece, int64_t row, int64_t rows,
                   const BlockRows& from, float* sums) {
  const std::byte* panel = piece.panels;
  for (int64_t c = 0; c < piece.columns; c += kWide) {
    const PairedTarget t = target_of(p, piece, row, c);
    fetch_rows(t, rows);
    clear_sums<kHalves>();
    add_blocks<kHalves>(from.x, from.row, from.step, panel, from.blocks);
    if (from.last != nullptr) {
      add_blocks<kHalves>(from.last, kBlockRowBytes, 0, panel + from.blocks * kBlockPanelBytes, 1);
    }
    take_sums<kHalves>(sums);
    finish_rows(sums, rows, t);
    panel += piece.pairs * kPanelStep;
  }
}

void multiply_piece(const PairedProduct& p, const PairedPiece& piece, std::byte* scratch) {
  alignas(64) float sums[kBlockRows * kPairedColumns];
  for (int64_t row = 0; row < p.rows; row += kBlockRows) {
    const int64_t rows = p.rows - row < kBlockRows ? p.rows - row : kBlockRows;
    const BlockRows from = find_rows(p, piece, row, rows, scratch);
    fetch_next_rows(p, piece, row + kBlockRows);
    finish_writes();
    if (rows > kHalfRows) {
      multiply_rows<2>(p, piece, row, rows, from, sums);
    } else {
      multiply_rows<1>(p, piece, row, rows, from, sums);
    }
  }
}

void multiply_pieces(const PairedProduct& p, std::byte* scratch) {
  const auto pairs_of = [](int64_t steps) { return whole_blocks(steps) * kBlockPairs; };
  for_each_piece(p, panels_at_once(p) * kWide, scratch + packed_row_bytes(p), pairs_of,
                 [&](const PairedPiece& piece) { multiply_piece(p, piece, scratch); });
}

void multiply_tiled(const PairedProduct& p, std::byte* scratch) {
  const TilesInUse tiles;
  multiply_all(p, scratch, multiply_pieces);
}

}  // namespace
}  // namespace plimsoll::backend::cpu

#pragma GCC pop_options
#pragma GCC diagnostic pop
#undef PLIMSOLL_LANES

namespace plimsoll::backend::cpu {
const PairedMultiply kTiledMultiply = {&multiply_tiled, &tiled_bytes};
}  // namespace plimsoll::backend::cpu
#endif
