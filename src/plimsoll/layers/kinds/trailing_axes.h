#pragma once

#include <cstdint>
#include <vector>

#include "layers/model/layer.h"

// A layer that normalizes over the last axes of a value, which its option "axis" names in any order
// and counts from either end.
namespace plimsoll::layers {

class OverTrailingAxes : public Layer {
 protected:
  // Reads "axis" too.
  explicit OverTrailingAxes(ConfigReader& reader);

  // How many they are. Throws kModel where the batch or an inner axis is among them.
  int64_t count_axes(const Shape& shape) const;
  // Their extents: the shape of a weight for each element. None of a value that is refused.
  std::vector<int64_t> trailing_dims(std::span<const ValueType> inputs) const;

 private:
  Config as_config() const;

  std::vector<int64_t> axes_;
};

}  // namespace plimsoll::layers
