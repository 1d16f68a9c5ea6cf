#pragma once

// conv_pool.h's gradients of bfloat16 operands, two products at a time.
//
// A processor that multiplies bfloat16 numbers does so in pairs: each lane of a float32 sum takes
// a0 · b0 + a1 · b1. So lists go in pairs of entries, whose patches are interleaved in registers:
//
//   sum[lane] += value[0] · patch0[lane] + value[1] · patch1[lane]
//
// The last entry of an odd list goes with zeros, whatever lies after it. Interleaving leaves the
// numbers of a vector in an order of its own. The kernel is laid out so that its sums come out
// straight; those of the kernel gradient are put in order at their end. Rows of a patch are rounded
// up to kPairedRow numbers.

#include <cstdint>

#include "backend/cpu/conv/conv_pool.h"
#include "backend/cpu/cpu_kernels.h"

namespace plimsoll::backend::cpu {

inline constexpr int64_t kPairedRow = 32;

// As the loops of conv_pool_inl.h, which say what the operands are.
struct PairedLoops {
  // sums: [filter][patch], out of order; bias_sums: [filter].
  void (*add_kernel_gradient)(const PatchShape&, const uint16_t* band, int64_t band_row,
                              const uint16_t* dy, const uint8_t* winners, int64_t windows,
                              int64_t begin, int64_t end, float* sums, float* bias_sums);
  // Puts `count` such sums, a multiple of kPairedRow, in order.
  void (*put_in_order)(float* sums, int64_t count);
  // The kernel filter by filter, filters [begin, end), as add_source_gradient wants it.
  void (*spread_kernel)(const PatchShape&, const uint16_t* kernel, int64_t begin, int64_t end,
                        uint16_t* by_filter);
  void (*add_source_gradient)(const PatchShape&, const uint16_t* kernel, const uint16_t* dy,
                              const uint8_t* winners, int64_t windows, int64_t first_row,
                              int64_t end_row, uint16_t* values, int32_t* offsets, float* band,
                              int64_t band_row);
};

// Null: the processor has no such products, or the compiler does not know them.
const PairedLoops* paired_loops(const CpuOptions& options);

}  // namespace plimsoll::backend::cpu
