#include "layers/kinds/trailing_axes.h"

#include <algorithm>

#include "base/format.h"

namespace plimsoll::layers {

OverTrailingAxes::OverTrailingAxes(ConfigReader& reader) : Layer(reader) {
  const Config given = reader.value("axis", Config::Array{-1});
  const Config::Array list = given.is_array() ? given.as_array() : Config::Array{given};
  for (const Config& axis : list) {
    if (!axis.is_int()) reader.refuse("axis", "an integer or a list of them", given.to_json());
    axes_.push_back(axis.as_int());
  }
  if (axes_.empty()) reader.refuse("axis", "one axis or more", given.to_json());
  reader.complete("axis", list);
}

int64_t OverTrailingAxes::count_axes(const Shape& shape) const {
  std::vector<int64_t> counted;
  for (int64_t axis : axes_) counted.push_back(axis < 0 ? axis + shape.rank() : axis);
  std::ranges::sort(counted);
  const auto count = static_cast<int64_t>(counted.size());
  for (int64_t i = 0; i < count; ++i) {
    if (counted[static_cast<size_t>(i)] == shape.rank() - count + i) continue;
    refuse(fmt::format("the last axes of {}", to_string(shape)), as_config().to_json(),
           "Permute the axes to normalize to the end first.");
  }
  if (count >= shape.rank()) {
    refuse(fmt::format("axes after the batch of {}", to_string(shape)), as_config().to_json(), "");
  }
  return count;
}

std::vector<int64_t> OverTrailingAxes::trailing_dims(std::span<const ValueType> inputs) const {
  if (inputs.size() != 1 || inputs[0].shape.rank() < 2) return {};
  const Shape& shape = inputs[0].shape;
  std::vector<int64_t> dims;
  for (int64_t d = shape.rank() - count_axes(shape); d < shape.rank(); ++d) {
    dims.push_back(shape[static_cast<int>(d)].count);
  }
  return dims;
}

Config OverTrailingAxes::as_config() const {
  Config::Array list;
  for (int64_t axis : axes_) list.emplace_back(axis);
  return list;
}

}  // namespace plimsoll::layers
