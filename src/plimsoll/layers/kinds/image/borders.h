#pragma once

// The rows and columns that padding and cropping layers name, in all of Keras's spellings.

#include <vector>

#include "layers/config/config_reader.h"

namespace plimsoll::layers {

// One dimension: n, [n], or [before, after]; two: n, [rows, columns] or [[top, bottom], [left,
// right]]. Always {top, bottom, left, right}; one dimension has no columns. Printed as Keras does.
std::vector<int64_t> read_borders(ConfigReader& reader, std::string_view key, int spatial,
                                  const Config& fallback);

}  // namespace plimsoll::layers
