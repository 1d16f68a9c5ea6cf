#pragma once

// How paired_product.h's products come in pieces of their steps, in vectors and in tiles.

#include <algorithm>
#include <cstdint>

#include "backend/cpu/product/paired_product.h"

namespace plimsoll::backend::cpu {

// Steps of a piece, where y is float32: as many bytes as a piece of packed_product.h.
inline constexpr int64_t kPairedPieceSteps = 512;
// More steps of a sum that is rounded once come in pieces too: no cache would hold their panels.
inline constexpr int64_t kMostPairedSteps = 8192;

constexpr bool keeps_sums(const PairedProduct& p) { return p.bf16 && p.inner > kMostPairedSteps; }
// All of another sum that is rounded once.
constexpr int64_t piece_steps(const PairedProduct& p) {
  return p.bf16 && !keeps_sums(p) ? p.inner : std::min(p.inner, kPairedPieceSteps);
}
// Sums of a panel's columns, between the pieces of those that are rounded.
constexpr int64_t kept_bytes(const PairedProduct& p) {
  return keeps_sums(p) ? p.rows * kPairedColumns * 4 : 0;
}

}  // namespace plimsoll::backend::cpu
