#pragma once

// Convolutions over images, for kernels that know no other rank.

#include <string_view>

#include "ops/image/conv.h"

namespace plimsoll::ops {

using Conv2dGeometry = ConvGeometry;

// Whether a convolution, or a gradient of one, is over images.
bool convolves_images(const graph::NodeTypes& node);

// Reads a node that its shape rule accepted; `height`, `width` and `channels` are the input's.
Conv2dGeometry conv2d_geometry(const graph::Attributes& attributes, int64_t height, int64_t width,
                               int64_t channels);
// Reads a conv2d, conv2d_grad_input or conv2d_grad_kernel node.
Conv2dGeometry conv2d_geometry(std::string_view op, const graph::NodeTypes& node);

}  // namespace plimsoll::ops
