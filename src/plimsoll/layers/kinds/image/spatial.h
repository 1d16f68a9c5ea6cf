#pragma once

// What layers over time, over images or over volumes have in common: Keras's padding words as
// numbers, and the layouts in which everything is computed.
//
// Inside, every spatial value is an image (B, height, width, channels) or a volume (B, depth,
// height, width, channels). A sequence (B, time, channels) is an image of width 1, the same bytes
// under another shape. What looks at one or two dimensions of a volume at a time sees it as an
// image too, with the rest joined to a neighbour. Channels first is another order of the bytes:
// such values are transposed at a layer's borders, and where one layer's output transposition meets
// the next layer's input transposition both fall away (Expansion keeps, for a value that was
// transposed, what it was transposed from).

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "layers/model/layer.h"

namespace plimsoll::layers {

// Rows that padding="same" adds before and after one dimension, as TensorFlow does: the output has
// ceil(input / stride) rows, and the odd one comes after.
std::vector<int64_t> same_padding(int64_t input, int64_t size, int64_t stride, int64_t dilation);

// Before and after each of the spatial dimensions of an image or a volume, {top, bottom, left,
// right}, for "valid" or "same".
std::vector<int64_t> window_padding(std::string_view padding, const Shape& image,
                                    const std::vector<int64_t>& size,
                                    const std::vector<int64_t>& strides,
                                    const std::vector<int64_t>& dilation);

// `sizes` of one dimension with `other` for the width, or those of more as they are.
std::vector<int64_t> both_dimensions(std::vector<int64_t> sizes, int64_t other = 1);

// Where a value keeps its channels.
int64_t channels_of(const Shape& shape, bool channels_first);

// (B, time, channels), as an image, or (B, sizes…, channels), or channels first.
ValueId to_image(LayerContext& context, ValueId x, bool channels_first);
// The way back, to `spatial` dimensions.
ValueId from_image(LayerContext& context, ValueId image, int spatial, bool channels_first);

// The same elements in their order as (B, dims…).
ValueId with_dims(LayerContext& context, ValueId x, std::vector<int64_t> dims);

// Which neighbours are one dimension where a volume (B, depth, height, width, channels) is seen as
// an image.
enum class Joined : uint8_t {
  kWidthAndChannels,  // (B, depth, height, width · channels)
  kDepthAndHeight,    // (B, depth · height, width, channels)
  kHeightAndWidth,    // (B, depth, height · width, channels)
};
ValueId volume_as_image(LayerContext& context, ValueId volume, Joined joined);

}  // namespace plimsoll::layers
