#pragma once

// Keras's padding words as numbers.

#include <cstdint>
#include <string_view>
#include <vector>

namespace plimsoll::layers {

// Rows that padding="same" adds before and after one dimension, as TensorFlow does: the output has
// ceil(input / stride) rows, and the odd one stands behind.
std::vector<int64_t> same_padding(int64_t input, int64_t size, int64_t stride, int64_t dilation);

// {top, bottom, left, right} for "valid" or "same".
std::vector<int64_t> window_padding(std::string_view padding, int64_t height, int64_t width,
                                    const std::vector<int64_t>& size,
                                    const std::vector<int64_t>& strides,
                                    const std::vector<int64_t>& dilation);

}  // namespace plimsoll::layers
