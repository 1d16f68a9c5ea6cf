#pragma once

// What layers over time or over images have in common: Keras's padding words as numbers, and the
// one layout in which everything is computed.
//
// Inside, every spatial value is an image (B, height, width, channels). A sequence (B, time,
// channels) is an image of width 1, the same bytes under another shape. Channels first is another
// order of the bytes: such values are transposed at a layer's borders, and where one layer's output
// transposition meets the next layer's input transposition both fall away (Expansion keeps, for a
// value that was transposed, what it was transposed from).

#include <cstdint>
#include <string_view>
#include <vector>

#include "layers/model/layer.h"

namespace plimsoll::layers {

// Rows that padding="same" adds before and after one dimension, as TensorFlow does: the output has
// ceil(input / stride) rows, and the odd one comes after.
std::vector<int64_t> same_padding(int64_t input, int64_t size, int64_t stride, int64_t dilation);

// {top, bottom, left, right} for "valid" or "same".
std::vector<int64_t> window_padding(std::string_view padding, int64_t height, int64_t width,
                                    const std::vector<int64_t>& size,
                                    const std::vector<int64_t>& strides,
                                    const std::vector<int64_t>& dilation);

// `sizes` of one dimension with `other` for the width, or those of two as they are.
std::vector<int64_t> both_dimensions(std::vector<int64_t> sizes, int64_t other = 1);

// Where a value with `spatial` (1 or 2) spatial dimensions keeps its channels.
int64_t channels_of(const Shape& shape, bool channels_first);

// (B, time, channels) or (B, height, width, channels), or channels first, as an image.
ValueId to_image(LayerContext& context, ValueId x, bool channels_first);
// The way back, to `spatial` dimensions.
ValueId from_image(LayerContext& context, ValueId image, int spatial, bool channels_first);

}  // namespace plimsoll::layers
