#pragma once

// The slabs, rows and columns that padding and cropping layers name, in all of Keras's spellings.

#include <vector>

#include "layers/config/config_reader.h"
#include "layers/model/layer.h"

namespace plimsoll::layers {

// One dimension: n, [n], or [before, after]; two: n, [rows, columns] or [[top, bottom], [left,
// right]]; three alike. Before and after each dimension, {top, bottom, left, right}; one dimension
// has no columns. Printed as Keras does.
std::vector<int64_t> read_borders(ConfigReader& reader, std::string_view key, int spatial,
                                  const Config& fallback);

// Adds `op` (zero_pad2d or crop2d), whose borders are the attribute `key`, on an image or a volume.
ValueId add_borders(LayerContext& context, std::string_view op, std::string_view key, ValueId image,
                    const std::vector<int64_t>& borders);

}  // namespace plimsoll::layers
