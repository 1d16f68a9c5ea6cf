#pragma once

// conv_pool.h's gradients where the processor has tiles (tiled_product.h). Those are so much faster
// than vectors that gathering what is not zero takes longer than multiplying all of it: the pooled
// gradient is spread out again, a few rows of it at a time, which stay in a cache. What is not zero
// there meets the same numbers; but where a source or a kernel is not finite, zeros meet it too,
// and more of a gradient is not a number than in the reference.

#include <cstdint>

#include "backend/cpu/cpu_kernels.h"
#include "ops/image/conv2d_pool.h"

namespace plimsoll::backend::cpu {

// One row of the convolution's result, from a row of its windows.
struct SpreadRow {
  const uint16_t* dy = nullptr;      // of the windows: all_filters numbers each
  const uint8_t* winners = nullptr;  // likewise
  int64_t windows = 0, all_filters = 0;
  int64_t filters = 0;  // of those, from dy on
  int64_t pool_columns = 1;
  int64_t first_tap = 0;  // of this row in its windows
  // `windows` · pool_columns positions, to_position numbers apart; those after the filters are
  // zeros.
  uint16_t* to = nullptr;
  int64_t to_position = 0;
};

// The gradient to the source, of convolutions without strides. Panels of the kernel hold 32
// channels, 32 filters at a time; D is a band of the spread gradient with its padding.
//
//   dx[r][c][·] = Σ over i, j of D[r − i][c − j][·] · kernel[i][j][·][·]ᵀ
struct TiledSource {
  int64_t rows = 0, columns = 0, channels = 0;  // of dx in this call of the loop
  int64_t kernel_rows = 1, kernel_columns = 1;
  int64_t filters = 0;             // rounded up to blocks
  const uint16_t* band = nullptr;  // its first row is the first that dx's first row reads
  int64_t band_row = 0;            // numbers
  const std::byte* panels = nullptr;
  uint16_t* dx = nullptr;
  int64_t dx_row = 0;
};

struct TiledPoolLoops {
  void (*spread_row)(const SpreadRow&);
  // Adds the gradients that pass in a row of windows to as many sums as filters.
  void (*add_bias)(const SpreadRow&, float* sums);
  // kernel: (kernel_rows, kernel_columns, channels, filters); as many bytes as tiled_panel_bytes.
  void (*pack_kernel)(const TiledSource&, const uint16_t* kernel, int64_t filters,
                      std::byte* panels);
  void (*source_gradient)(const TiledSource&);
};
int64_t tiled_panel_bytes(const TiledSource& source);

// Null: the processor has no tiles, or the compiler does not know them.
const TiledPoolLoops* tiled_pool_loops(const CpuOptions& options);

// Gradients of bfloat16 operands. No kernel: no tiles, or a shape that does not fill them.
CpuKernel make_tiled_conv_pool(const NodeFacts& facts, const CpuOptions& options);

}  // namespace plimsoll::backend::cpu
