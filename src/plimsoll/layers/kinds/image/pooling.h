#pragma once

// What the pooling layers have in common: a window that slides over one to three dimensions.

#include "layers/kinds/image/spatial.h"

namespace plimsoll::layers {

// In layers' own dimensions: one size for sequences, two for images, three for volumes.
struct PoolingOptions {
  std::vector<int64_t> pool_size{};
  std::vector<int64_t> strides{};
  std::string padding{};
  bool channels_first = false;
};

// Reads pool_size, padding, strides (default: the window) and data_format, in Keras's order.
// `has_size`: Keras has a default for pool_size.
PoolingOptions read_pooling_options(ConfigReader& reader, int spatial, bool has_size);

// Attributes of a pooling node on an image or a volume.
Attributes pooling_attributes(const PoolingOptions& options, const Shape& image);

}  // namespace plimsoll::layers
