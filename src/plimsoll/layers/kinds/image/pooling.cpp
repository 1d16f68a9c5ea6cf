#include "layers/kinds/image/pooling.h"

namespace plimsoll::layers {

PoolingOptions read_pooling_options(ConfigReader& reader, int spatial, bool has_size) {
  PoolingOptions options;
  const auto count = static_cast<size_t>(spatial);
  options.pool_size = has_size ? reader.sizes("pool_size", std::vector<int64_t>(count, 2), 1)
                               : reader.sizes("pool_size", count, 1);
  options.padding = reader.choice("padding", "valid", {"valid", "same"});
  options.strides = reader.sizes("strides", options.pool_size, 1);
  options.channels_first = reader.channels_first();
  return options;
}

Attributes pooling_attributes(const PoolingOptions& options, const Shape& image) {
  const std::vector<int64_t> size = both_dimensions(options.pool_size);
  const std::vector<int64_t> strides = both_dimensions(options.strides);
  const std::vector<int64_t> undilated(size.size(), 1);
  return {{"pool_size", size},
          {"strides", strides},
          {"padding", window_padding(options.padding, image, size, strides, undilated)}};
}

}  // namespace plimsoll::layers
