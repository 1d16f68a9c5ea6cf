#pragma once

// The geometry of a two-dimensional convolution, read from a node's attributes.
//
// Layouts: activations (B, height, width, channels), kernels (height, width, channels / groups,
// filters). Group g makes filters [g * F/G, (g + 1) * F/G) from channels [g * C/G, (g + 1) * C/G).
//
// A kernel may have another shape of the same elements in the same order, which the attribute
// kernel_shape names: (height, width, channels, multiplier) of a depthwise convolution (groups =
// C), (width, channels, filters) of a one-dimensional one. Nothing is moved for that.
//
// conv2d_grad_input is the transposed convolution too: its first operand is then the small image,
// input_shape the large one, and the kernel (height, width, filters out, channels in).

#include "graph/attributes.h"
#include "graph/op.h"
#include "ops/image/window2d.h"

namespace plimsoll::ops {

struct Conv2dGeometry {
  Window2d window;
  int64_t channels = 1;
  int64_t filters = 1;
  int64_t groups = 1;

  const Window& rows() const { return window[0]; }
  const Window& columns() const { return window[1]; }
  int64_t group_channels() const { return channels / groups; }
  int64_t group_filters() const { return filters / groups; }
  // Elements of the kernel, (height, width, channels / groups, filters).
  int64_t kernel_elements() const {
    return rows().size * columns().size * group_channels() * filters;
  }
};

// Reads a node that its shape rule accepted; `height`, `width` and `channels` are the input's.
Conv2dGeometry conv2d_geometry(const graph::Attributes& attributes, int64_t height, int64_t width,
                               int64_t channels);
// Reads a conv2d, conv2d_grad_input or conv2d_grad_kernel node.
Conv2dGeometry conv2d_geometry(std::string_view op, const graph::NodeTypes& node);

}  // namespace plimsoll::ops
