#include "backend/cpu/packed_product.h"

#include <algorithm>

namespace plimsoll::backend::cpu {
namespace {

// Steps of a piece: a panel of them and some rows of x lie in the first cache.
constexpr int64_t kPackedInner = 256;
// Floats of all panels of a piece, for the second cache.
constexpr int64_t kPackedFloats = 32 << 10;
// Rows that meet a panel while their results are near.
constexpr int64_t kPackedRows = 24;

constexpr int64_t packed_columns(int64_t wide, int64_t inner, int64_t columns) {
  const int64_t fitting = kPackedFloats / std::clamp<int64_t>(inner, 1, kPackedInner) / wide * wide;
  return std::min((columns + wide - 1) / wide * wide, std::max(fitting, wide));
}

}  // namespace
}  // namespace plimsoll::backend::cpu

#define PLIMSOLL_LOOPS_HEADER "backend/cpu/packed_product_impl.h"
#include "backend/cpu/for_each_isa.h"

namespace plimsoll::backend::cpu {

PackedMultiplyFunction pick_packed_multiply(Isa isa) { return PLIMSOLL_PICK(isa, multiply_packed); }

int64_t packed_floats(Isa isa, int64_t inner, int64_t columns) {
  return std::min(inner, kPackedInner) * packed_columns(2 * lanes_of(isa), inner, columns);
}

}  // namespace plimsoll::backend::cpu
