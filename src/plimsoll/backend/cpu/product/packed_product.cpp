#include "backend/cpu/product/packed_product.h"

#include <algorithm>

#include "base/ceil_div.h"

namespace plimsoll::backend::cpu {
namespace {

// Steps of a piece: a panel of them and some rows of x lie in the first cache.
constexpr int64_t kPackedInner = 256;
// Floats of all panels of a piece, for the second cache. Rows of a transposed x come from farther
// away: more columns meet them at once.
constexpr int64_t kPackedFloats = 32 << 10;
constexpr int64_t kPackedFloatsTransposed = 64 << 10;
// The rows of a tile, and what a store of a whole vector of packed rows writes beyond them.
constexpr int64_t kPackedRows = 8;

// Packed rows of a transposed x: for fewer columns, or steps that do not meet in few places of the
// caches, copying takes longer than it saves.
constexpr int64_t kColumnsWorthPacking = 192;
constexpr int64_t kStepWorthPacking = 256;
constexpr bool packs_rows(const PackedProduct& p) {
  return p.transposed_x && p.x_step > kStepWorthPacking && p.columns >= kColumnsWorthPacking;
}
// Panels of w are made while the first rows meet them, which saves reading w once more: where it is
// so small that it comes from a cache, and its rows so short that a panel's width of each is enough
// at once.
constexpr int64_t kFloatsPackedOnTheWay = 128 << 10;
constexpr int64_t kRowPackedOnTheWay = 256;
constexpr bool packs_on_the_way(const PackedProduct& p) {
  return !p.transposed && p.w_row <= kRowPackedOnTheWay &&
         p.inner * p.w_row <= kFloatsPackedOnTheWay;
}
// Few rows multiply a piece of w in no more time than the next one takes to come from memory.
constexpr int64_t kRowsWorthFetching = 128;
constexpr bool fetches_pieces(const PackedProduct& p) {
  return !p.transposed_x && p.rows <= kRowsWorthFetching && !packs_on_the_way(p);
}
constexpr int64_t packed_row_floats(const PackedProduct& p) {
  constexpr int64_t kLine = 16;
  const int64_t floats = std::min(p.inner, kPackedInner) * kPackedRows;
  return p.transposed_x && p.columns >= kColumnsWorthPacking ? round_up(floats, kLine) : 0;
}

constexpr int64_t packed_columns(int64_t wide, const PackedProduct& p) {
  const int64_t floats = p.transposed_x ? kPackedFloatsTransposed : kPackedFloats;
  const int64_t fitting = floats / std::clamp<int64_t>(p.inner, 1, kPackedInner) / wide * wide;
  return std::min(round_up(p.columns, wide), std::max(fitting, wide));
}

}  // namespace
}  // namespace plimsoll::backend::cpu

#define PLIMSOLL_LOOPS_HEADER "backend/cpu/product/packed_product_inl.h"
#include "backend/cpu/simd/for_each_isa.h"

namespace plimsoll::backend::cpu {

PackedMultiplyFunction pick_packed_multiply(Isa isa) { return PLIMSOLL_PICK(isa, multiply_packed); }

int64_t packed_floats(Isa isa, const PackedProduct& p) {
  const int64_t wide = PLIMSOLL_PICK(isa, panel_columns)();
  return packed_row_floats(p) + std::min(p.inner, kPackedInner) * packed_columns(wide, p);
}

}  // namespace plimsoll::backend::cpu
