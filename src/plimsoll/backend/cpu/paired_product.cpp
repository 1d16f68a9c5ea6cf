#include "backend/cpu/paired_product.h"

#include <algorithm>

#include "backend/cpu/tiled_product.h"

namespace plimsoll::backend::cpu {
namespace {

// Steps of a piece, where y is float32: as many bytes as a piece of packed_product.h.
constexpr int64_t kPieceSteps = 512;
// Bytes of all panels of a piece, for the second cache.
constexpr int64_t kPanelBytes = 256 << 10;
// More steps of a sum that is rounded once come in pieces too: no cache would hold their panels.
constexpr int64_t kMostSteps = 8192;

constexpr int64_t pairs_of(int64_t steps) { return (steps + 1) / 2; }
constexpr bool keeps_sums(const PairedProduct& p) { return p.narrow && p.inner > kMostSteps; }
constexpr int64_t piece_steps(const PairedProduct& p) {
  return p.narrow && !keeps_sums(p) ? p.inner : std::min(p.inner, kPieceSteps);
}
constexpr int64_t columns_at_once(const PairedProduct& p) {
  const int64_t panel = std::max<int64_t>(pairs_of(piece_steps(p)), 1) * kPairedColumns * 4;
  const int64_t panels = std::max<int64_t>(kPanelBytes / panel, 1);
  return std::min((p.columns + kPairedColumns - 1) / kPairedColumns, panels) * kPairedColumns;
}
// Sums of a panel's columns, between the pieces of those that are rounded.
constexpr int64_t kept_bytes(const PairedProduct& p) {
  return keeps_sums(p) ? p.rows * kPairedColumns * 4 : 0;
}
constexpr int64_t packed_row_bytes(const PairedProduct& p) {
  return p.turned_x ? pairs_of(piece_steps(p)) * kPairedTileRows * 4 : 0;
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

#include "backend/cpu/paired_sums_impl.h"
#include "backend/cpu/transpose_impl.h"

#include "backend/cpu/paired_panels_impl.h"

// Rows of x as a panel meets them, in bytes: row r's pair k is at r · row + k · step.
struct PairedRows {
  const std::byte* x;
  int64_t row, step;
  bool odd;  // the last pair is one number, and what lies behind it is another's
};

// kRows rows of x and a panel of so many pairs.
template <int kRows>
void multiply_rows(const PairedRows& from, const std::byte* panel, int64_t pairs,
                   const PairedTarget& t) {
  fetch_target<kRows>(t);
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

// A piece's panels: columns [column, column + columns), steps from k on.
struct PairedPiece {
  int64_t column, columns, k, steps;
  const std::byte* panels;
  int64_t pairs() const { return (steps + 1) / 2; }
};

// kRows rows from `row` on and all panels of a piece, which lie in the second cache: so few lines
// of y are gone along at once that they are fetched ahead.
template <int kRows>
void multiply_tile(const PairedProduct& p, const PairedPiece& piece, int64_t row,
                   std::byte* packed_x) {
  const uint16_t* x = p.x + row * p.x_row + piece.k * p.x_step;
  PairedRows from = {reinterpret_cast<const std::byte*>(x), p.x_row * 2, 4, piece.steps % 2 != 0};
  if (p.turned_x) {
    pack_rows(x, p.x_step, kRows, piece.steps, packed_x);
    from = {packed_x, 4, kRows * 4, false};
  }
  const bool last = piece.k + piece.steps == p.inner;
  for (int64_t c = 0; c < piece.columns; c += kWide) {
    const int64_t left = piece.columns - c;
    const int64_t column = piece.column + c;
    const int64_t at = row * p.y_row + column;
    multiply_rows<kRows>(from, piece.panels + c * piece.pairs() * 4, piece.pairs(),
                         {.y = p.narrow ? nullptr : p.y + at,
                          .narrow_y = p.narrow ? p.narrow_y + at : nullptr,
                          .y_row = p.y_row,
                          .first = first_lanes_of(left),
                          .second = second_lanes_of(left),
                          .add = p.add || piece.k > 0,
                          .bias = last && p.bias != nullptr ? p.bias + column : nullptr,
                          .relu = last && p.relu});
  }
}

void multiply_pieces(const PairedProduct& p, std::byte* scratch) {
  const int64_t most_columns = columns_at_once(p);
  const int64_t most_steps = piece_steps(p);
  std::byte* panels = scratch + packed_row_bytes(p);
  for (int64_t column = 0; column < p.columns; column += most_columns) {
    const int64_t columns = p.columns - column < most_columns ? p.columns - column : most_columns;
    for (int64_t k = 0; k < p.inner; k += most_steps) {
      const int64_t steps = p.inner - k < most_steps ? p.inner - k : most_steps;
      const PairedPiece piece = {column, columns, k, steps, panels};
      if (p.turned) {
        pack_turned(p.w + column * p.w_row + k, p.w_row, steps, columns, piece.pairs(), panels);
      } else {
        pack_plain(p.w + k * p.w_row + column, p.w_row, steps, columns, piece.pairs(), panels);
      }
      for_each_tile<kPairedTileRows>(p.rows, [&](int64_t row, auto tile) {
        multiply_tile<decltype(tile)::kRows>(p, piece, row, scratch);
      });
    }
  }
}

void multiply_paired(const PairedProduct& p, std::byte* scratch) {
  if (keeps_sums(p)) {
    multiply_kept(p, scratch, kept_bytes(p), multiply_pieces);
  } else {
    multiply_pieces(p, scratch);
  }
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
