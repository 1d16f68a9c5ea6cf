#include "layers/model/masking.h"

#include <algorithm>

#include "base/error.h"
#include "base/format.h"
#include "layers/model/layer_traits.h"
#include "ops/rules.h"

namespace plimsoll::layers {

ValueId without_last_one(graph::GraphBuilder& builder, const std::string& name, ValueId mask,
                         const Shape& shape) {
  const Shape given = builder.type(mask).shape;
  if (given.rank() != shape.rank() + 1 || given[given.rank() - 1].count != 1) return mask;
  std::vector<int64_t> dims = ops::sample_dims(given);
  dims.pop_back();
  return builder.call("reshape", name, {mask}, {{"shape", dims}});
}

ValueId either_mask(graph::GraphBuilder& builder, const std::string& name, ValueId a, ValueId b) {
  const Shape left = builder.type(a).shape;
  const Shape right = builder.type(b).shape;
  if (left != right) {
    std::vector<int64_t> dims;
    for (int d = 1; d < left.rank() && left.rank() == right.rank(); ++d) {
      if (left[d] != right[d] && left[d].count != 1 && right[d].count != 1) break;
      dims.push_back(std::max(left[d].count, right[d].count));
    }
    if (left.rank() != right.rank() || static_cast<int>(dims.size()) + 1 != left.rank()) {
      throw Error(ErrorKind::kModel,
                  fmt::format("[{}] expected masks of one shape, received {} and {}. End one of "
                              "them before the layer, by a Reshape.",
                              builder.layer(), to_string(left), to_string(right)));
    }
    for (ValueId* mask : {&a, &b}) {
      if (ops::sample_dims(builder.type(*mask).shape) == dims) continue;
      *mask = builder.call("broadcast", name + "/broadcast", {*mask}, {{"shape", dims}});
    }
  }
  return builder.call("logical", name, {a, b}, {{"kind", "or"}});
}

ValueId default_mask(graph::GraphBuilder& builder, const Layer& layer,
                     std::span<const ValueId> masks) {
  if (masks.empty()) return ValueId();
  const MaskUse use = layer_traits(layer.class_name()).masks;
  if (use == MaskUse::kPasses) return masks[0];
  // keras.src.layers.merging.base_merge.Merge.compute_mask
  if (use != MaskUse::kMerges) return ValueId();
  if (!std::ranges::all_of(masks, [](ValueId mask) { return mask.valid(); })) return ValueId();
  ValueId merged = masks[0];
  for (ValueId mask : masks.subspan(1)) {
    merged = either_mask(builder, layer.name() + "/mask", merged, mask);
  }
  return merged;
}

}  // namespace plimsoll::layers
