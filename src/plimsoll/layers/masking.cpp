#include "layers/masking.h"

#include <algorithm>
#include <array>

namespace plimsoll::layers {
namespace {

// Sorted.
constexpr std::array<std::string_view, 21> kPassing = {"Activation",
                                                       "ActivityRegularization",
                                                       "AlphaDropout",
                                                       "BatchNormalization",
                                                       "Dense",
                                                       "Dropout",
                                                       "ELU",
                                                       "GaussianDropout",
                                                       "GaussianNoise",
                                                       "GroupNormalization",
                                                       "Identity",
                                                       "LayerNormalization",
                                                       "LeakyReLU",
                                                       "MultiHeadAttention",
                                                       "Normalization",
                                                       "PReLU",
                                                       "ReLU",
                                                       "Rescaling",
                                                       "Softmax",
                                                       "SpatialDropout1D",
                                                       "SpatialDropout2D"};
constexpr std::array<std::string_view, 2> kPassingToo = {"TimeDistributed", "UnitNormalization"};
// keras.src.layers.merging.base_merge.Merge.compute_mask
constexpr std::array<std::string_view, 6> kMerging = {"Add",     "Average",  "Maximum",
                                                      "Minimum", "Multiply", "Subtract"};

}  // namespace

bool passes_mask_on(std::string_view class_name) {
  return std::ranges::find(kPassing, class_name) != kPassing.end() ||
         std::ranges::find(kPassingToo, class_name) != kPassingToo.end();
}

ValueId either_mask(graph::GraphBuilder& builder, const std::string& name, ValueId a, ValueId b) {
  return builder.call("logical", name, {a, b}, {{"kind", "or"}});
}

ValueId default_mask(graph::GraphBuilder& builder, const Layer& layer,
                     std::span<const ValueId> masks) {
  if (masks.empty()) return ValueId();
  if (passes_mask_on(layer.class_name())) return masks[0];
  if (std::ranges::find(kMerging, layer.class_name()) == kMerging.end()) return ValueId();
  ValueId merged;
  for (ValueId mask : masks) {
    if (!mask.valid()) return ValueId();
    if (merged.valid() && builder.type(mask) != builder.type(merged)) return ValueId();
    merged = merged.valid() ? either_mask(builder, layer.name() + "/mask", merged, mask) : mask;
  }
  return merged;
}

}  // namespace plimsoll::layers
