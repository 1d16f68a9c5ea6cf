#include "backend/kernel/region.h"

#include <algorithm>

namespace plimsoll::backend {

Region find_region(const graph::ValueType& type, int64_t batch,
                   std::span<const graph::AxisUse> uses, std::span<const int64_t> begin,
                   std::span<const int64_t> extents) {
  Region region;
  region.dims = type.shape.at(batch);
  region.begin.assign(region.dims.size(), 0);
  for (size_t i = 0; i < uses.size(); ++i) {
    const graph::AxisUse& use = uses[i];
    if (use.dimension < 0) continue;
    const auto d = static_cast<size_t>(use.dimension);
    const int64_t last = begin[i] + extents[i] - 1;
    const int64_t from = std::max<int64_t>(begin[i] * use.stride - use.before, 0);
    const int64_t to = std::min(last * use.stride + use.after + 1, region.dims[d]);
    region.begin[d] = from;
    region.dims[d] = std::max<int64_t>(to - from, 0);
  }
  return region;
}

std::vector<graph::AxisUse> uses_of_input(std::span<const graph::Axis> axes, size_t input) {
  std::vector<graph::AxisUse> uses;
  uses.reserve(axes.size());
  for (const graph::Axis& axis : axes) uses.push_back(axis.inputs[input]);
  return uses;
}

std::vector<graph::AxisUse> uses_of_output(std::span<const graph::Axis> axes, size_t output) {
  std::vector<graph::AxisUse> uses;
  uses.reserve(axes.size());
  for (const graph::Axis& axis : axes) uses.push_back(axis.outputs[output]);
  return uses;
}

std::vector<int64_t> dense_strides(std::span<const int64_t> dims) {
  std::vector<int64_t> strides(dims.size(), 1);
  for (size_t d = dims.size(); d-- > 1;) strides[d - 1] = strides[d] * dims[d];
  return strides;
}

int64_t product(std::span<const int64_t> dims) {
  int64_t count = 1;
  for (int64_t dim : dims) count *= dim;
  return count;
}

}  // namespace plimsoll::backend
