#pragma once

// The geometry of a convolution of any rank, read from a node's attributes.
//
// Layouts: activations (B, sizes…, channels), kernels (sizes…, channels / groups, filters), sizes
// from the outermost to the innermost: (depth, height, width) or (height, width). Group g makes
// filters [g * F/G, (g + 1) * F/G) from channels [g * C/G, (g + 1) * C/G).
//
// A kernel may have another shape of the same elements in the same order, which the attribute
// kernel_shape names: (height, width, channels, multiplier) of a depthwise convolution (groups =
// C), (width, channels, filters) of a one-dimensional one. Nothing is moved for that.
//
// The gradient to the input is the transposed convolution too: its first operand is then the small
// image, input_shape the large one, and the kernel (sizes…, filters out, channels in).

#include <cstdint>
#include <span>
#include <string_view>

#include "graph/attributes.h"
#include "graph/op.h"
#include "ops/image/windows.h"

namespace plimsoll::ops {

struct ConvGeometry {
  Windows window;
  int64_t channels = 1;
  int64_t filters = 1;
  int64_t groups = 1;

  const Window& slabs() const { return window.slabs(); }
  const Window& rows() const { return window.rows(); }
  const Window& columns() const { return window.columns(); }
  int64_t group_channels() const { return channels / groups; }
  int64_t group_filters() const { return filters / groups; }
  // Elements of the kernel, (sizes…, channels / groups, filters).
  int64_t kernel_elements() const { return window.taps() * group_channels() * filters; }
};

// Reads a node that its shape rule accepted; `input` is a sample of the input: (sizes…, channels).
ConvGeometry conv_geometry(const graph::Attributes& attributes, std::span<const int64_t> input);
// Reads a node of operator `op`: a convolution or one of its two gradients.
ConvGeometry conv_geometry(std::string_view op, const graph::NodeTypes& node);

}  // namespace plimsoll::ops
