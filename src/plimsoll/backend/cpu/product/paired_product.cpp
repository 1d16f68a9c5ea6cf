#include "backend/cpu/product/paired_product.h"

#include <algorithm>

#include "backend/cpu/product/paired_pieces.h"
#include "backend/cpu/product/tiled_product.h"
#include "base/ceil_div.h"

namespace plimsoll::backend::cpu {
namespace {

// Bytes of all panels of a piece, for the second cache.
constexpr int64_t kPanelBytes = 256 << 10;
constexpr int64_t pairs_of(int64_t steps) { return (steps + 1) / 2; }
constexpr int64_t columns_at_once(const PairedProduct& p) {
  const int64_t panel = std::max<int64_t>(pairs_of(piece_steps(p)), 1) * kPairedColumns * 4;
  const int64_t panels = std::max<int64_t>(kPanelBytes / panel, 1);
  return std::min(ceil_div(p.columns, kPairedColumns), panels) * kPairedColumns;
}
constexpr int64_t packed_row_bytes(const PairedProduct& p) {
  return p.transposed_x ? pairs_of(piece_steps(p)) * kPairedTileRows * 4 : 0;
}

[[maybe_unused]] int64_t paired_bytes(const PairedProduct& p) {
  return kept_bytes(p) + packed_row_bytes(p) + pairs_of(piece_steps(p)) * columns_at_once(p) * 4;
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
#pragma GCC target("arch=x86-64-v4,avx512bf16,prefer-vector-width=512")

namespace plimsoll::backend::cpu {
namespace {

#include "backend/cpu/product/paired_sums_inl.h"
#include "backend/cpu/simd/transpose_inl.h"

#include "backend/cpu/product/paired_panels_inl.h"

// Rows of x as a panel meets them, in bytes: row r's pair k is at r · row + k · step.
struct PairedRows {
  const std::byte* x;
  int64_t row, step;
  bool odd;  // the last pair is one number, and what lies after it is another's
};

// kRows rows of x and a panel of so many pairs.
template <int kRows>
void multiply_rows(const PairedRows& from, const std::byte* panel, int64_t pairs,
                   const PairedTarget& t) {
  fetch_rows(t, kRows);
  Floats sums[kRows][2];
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) sums[r][0] = sums[r][1] = Floats{};
  const std::byte* x = from.x;
  const int64_t whole = from.odd ? pairs - 1 : pairs;
  for (int64_t k = 0; k < whole; ++k) {
    add_step(sums, panel, [&](int r) { return broadcast_pair(x + r * from.row); });
    x += from.step;
    panel += kPanelStep;
  }
  if (from.odd) add_step(sums, panel, [&](int r) { return broadcast_last(x + r * from.row); });
  finish_tile(sums, t);
}

// Rows that lie side by side, each pair of steps after the other.
inline void pack_rows(const uint16_t* x, int64_t x_step, int64_t rows, int64_t steps,
                      std::byte* to) {
  const auto mask = static_cast<__mmask8>((uint32_t{1} << rows) - 1);
  for (int64_t k = 0; k < steps; k += 2) {
    const __m256i first = _mm256_cvtepu16_epi32(_mm_maskz_loadu_epi16(mask, x));
    const __m128i other =
        k + 1 < steps ? _mm_maskz_loadu_epi16(mask, x + x_step) : _mm_setzero_si128();
    const __m256i second = _mm256_slli_epi32(_mm256_cvtepu16_epi32(other), 16);
    _mm256_mask_storeu_epi32(to, mask, _mm256_or_si256(first, second));
    x += 2 * x_step;
    to += rows * 4;
  }
}

// kRows rows from `row` on and all panels of a piece, which lie in the second cache: so few lines
// of y are gone along at once that they are fetched ahead.
template <int kRows>
void multiply_tile(const PairedProduct& p, const PairedPiece& piece, int64_t row,
                   std::byte* packed_x) {
  const uint16_t* x = p.x + row * p.x_row + piece.k * p.x_step;
  PairedRows from = {reinterpret_cast<const std::byte*>(x), p.x_row * 2, 4, piece.steps % 2 != 0};
  if (p.transposed_x) {
    pack_rows(x, p.x_step, kRows, piece.steps, packed_x);
    from = {packed_x, 4, kRows * 4, false};
  }
  for (int64_t c = 0; c < piece.columns; c += kWide) {
    multiply_rows<kRows>(from, piece.panels + c * piece.pairs * 4, piece.pairs,
                         target_of(p, piece, row, c));
  }
}

void multiply_pieces(const PairedProduct& p, std::byte* scratch) {
  std::byte* panels = scratch + packed_row_bytes(p);
  for_each_piece(p, columns_at_once(p), panels, pairs_of, [&](const PairedPiece& piece) {
    for_each_tile<kPairedTileRows>(p.rows, [&](int64_t row, auto tile) {
      multiply_tile<decltype(tile)::kRows>(p, piece, row, scratch);
    });
  });
}

void multiply_paired(const PairedProduct& p, std::byte* scratch) {
  multiply_all(p, scratch, multiply_pieces);
}

}  // namespace
}  // namespace plimsoll::backend::cpu

#pragma GCC pop_options
#pragma GCC diagnostic pop
#undef PLIMSOLL_LANES

namespace plimsoll::backend::cpu {
const PairedMultiply* pick_paired_multiply(const CpuOptions& options) {
  static constexpr PairedMultiply kPaired = {&multiply_paired, &paired_bytes};
  if (options.tiles) return &kTiledMultiply;
  return options.pairs ? &kPaired : nullptr;
}
}  // namespace plimsoll::backend::cpu
#else
namespace plimsoll::backend::cpu {
const PairedMultiply* pick_paired_multiply(const CpuOptions&) { return nullptr; }
}  // namespace plimsoll::backend::cpu
#endif
