#pragma once

// What MaxPooling2D and AveragePooling2D have in common: a window that slides.

#include "layers/layer.h"

namespace plimsoll::layers {

struct PoolingOptions {
  std::vector<int64_t> pool_size{};
  std::vector<int64_t> strides{};
  std::string padding{};
};

// Reads pool_size, padding, strides (default: the window) and data_format, in Keras's order.
PoolingOptions read_pooling_options(ConfigReader& reader);

// Attributes of a pooling node on inputs of that shape.
Attributes pooling_attributes(const PoolingOptions& options, const Shape& shape);

}  // namespace plimsoll::layers
