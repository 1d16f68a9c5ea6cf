#pragma once

// What one sample costs in each layer of a model, forward, for tables.
//
// Counted on the expanded graph before fusion and planning: multiply-adds count as two operations,
// and activations are the values that the layer's operators make, views of other values left out.
// What a plan keeps of them is another question (plan/core/plan.h).

#include <map>
#include <string>

#include "base/bytes.h"
#include "layers/model/model.h"

namespace plimsoll::layers {

struct LayerCost {
  double flops_per_sample = 0;
  Bytes activation_bytes_per_sample{};
  friend bool operator==(const LayerCost&, const LayerCost&) = default;
};

// By layer name; layers that compute nothing are not in it. Throws kModel.
std::map<std::string, LayerCost, std::less<>> layer_costs(const Model& model);

}  // namespace plimsoll::layers
