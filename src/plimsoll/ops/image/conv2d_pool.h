#pragma once

// The geometry of a convolution with a maximum pooling after it as one node (conv2d_pool.cpp).

#include "ops/image/conv2d.h"

namespace plimsoll::ops {

// Windows lie side by side from the first position of the convolution's result on; what does not
// fill a window is left out.
struct Conv2dPoolGeometry {
  Conv2dGeometry conv;
  int64_t pool_rows = 1;
  int64_t pool_columns = 1;
  bool relu = false;

  int64_t rows() const { return conv.rows().output / pool_rows; }  // of the pooled result
  int64_t columns() const { return conv.columns().output / pool_columns; }
  // Positions of a window; as a winner: nobody.
  int64_t taps() const { return pool_rows * pool_columns; }
};

// Reads a conv2d_pool, conv2d_pool_grad_input or conv2d_pool_grad_kernel node.
Conv2dPoolGeometry conv2d_pool_geometry(std::string_view op, const graph::NodeTypes& node);

}  // namespace plimsoll::ops
