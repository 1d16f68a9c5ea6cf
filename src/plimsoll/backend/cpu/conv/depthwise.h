#pragma once

// Convolutions channel by channel (as many groups as channels, a filter each) and their gradients,
// without patches: lanes are channels, and a vector of a point of the kernel meets several columns
// while it is in a register.

#include <cstddef>
#include <cstdint>

#include "backend/cpu/cpu_kernels.h"
#include "ops/image/windows.h"

namespace plimsoll::backend::cpu {

// A row of outputs of one image.
struct DepthwiseRow {
  ops::Window columns;
  int64_t all_channels = 1;  // of the image
  int64_t channels = 1;      // of these, from the pointers on
  const float* x = nullptr;  // the image
  int64_t x_row = 0;
  int64_t row = 0;  // of the source under the kernel's first; may lie outside
  int64_t rows_dilation = 1;
  int64_t first_tap = 0, last_tap = 0;  // rows of the kernel that lie in the image
  const float* w = nullptr;
  int64_t w_row = 0, w_column = 0;  // from point to point; may be negative
  const float* bias = nullptr;
  bool relu = false;
  float* y = nullptr;
  int64_t y_column = 0;
};

// A row of dy of one image, and a row of the kernel.
struct DepthwiseGradRow {
  ops::Window columns;
  int64_t all_channels = 1;  // of the image
  int64_t channels = 1;      // of these, from the pointers on
  const float* x = nullptr;  // the row of the source
  const float* dy = nullptr;
  float* sums = nullptr;  // of the row's first point
  int64_t sums_column = 0;
};

// Whether a node is computed here beside a vendor too: gradients to kernels of single channels, and
// gradients to the source of more than 3 × 3 points without strides, for which vendors' loops are
// slow. Of bfloat16 they are computed as float32, and so are all gradients to the source.
bool is_depthwise_node(const NodeFacts& facts, const CpuOptions& options);

}  // namespace plimsoll::backend::cpu
