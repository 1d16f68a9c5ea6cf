#pragma once

// Sums of products in the processor's tiles (AMX), for paired_product.h and conv/kernel_grad.h:
// blocks of 32 rows, 32 columns and 32 steps.

#include <cstdint>

#include "backend/cpu/product/paired_product.h"

namespace plimsoll::backend::cpu {

inline constexpr int64_t kBlockRows = 32;
inline constexpr int64_t kBlockSteps = 32;
inline constexpr int64_t kBlockRowBytes = kBlockSteps * 2;  // of a factor's row
inline constexpr int64_t kBlockBytes = kBlockRows * kBlockRowBytes;
inline constexpr int64_t kBlockPanelBytes = kBlockSteps * kPairedColumns * 2;

// Numbers of two steps of a panel.
inline constexpr int64_t kBlockPairNumbers = 2 * kPairedColumns;

constexpr int64_t whole_blocks(int64_t steps) { return (steps + kBlockSteps - 1) / kBlockSteps; }

// Where the compiler knows the instructions.
extern const PairedMultiply kTiledMultiply;

}  // namespace plimsoll::backend::cpu
