#include "layers/pooling.h"

#include "layers/spatial.h"

namespace plimsoll::layers {

PoolingOptions read_pooling_options(ConfigReader& reader) {
  PoolingOptions options;
  options.pool_size = reader.pair("pool_size", {2, 2}, 1);
  options.padding = reader.choice("padding", "valid", {"valid", "same"});
  options.strides = reader.pair("strides", options.pool_size, 1);
  reader.data_format();
  return options;
}

Attributes pooling_attributes(const PoolingOptions& options, const Shape& shape) {
  return {{"pool_size", options.pool_size},
          {"strides", options.strides},
          {"padding", window_padding(options.padding, shape[1].count, shape[2].count,
                                     options.pool_size, options.strides, {1, 1})}};
}

}  // namespace plimsoll::layers
