#pragma once

// Variants of a model and its training configuration that may need less memory.
//
// Each is a change that a person could make, in words, with what it does to the result. They are
// proposals: whether one helps, and by how much, is known only when it has been planned, which is
// the caller's part. A variant that the model's shapes do not allow (a sum of branches that no
// longer match, a fixed shape) is left out. Weights are not carried over.

#include <string>
#include <vector>

#include "layers/model/model.h"
#include "layers/training/programs.h"

namespace plimsoll::planning {

struct ModelVariant {
  std::string change;  // "optimizer SGD(momentum=0.9)", "first 4 of 8 layers with weights frozen"
  std::string effect;  // what becomes of the result
  layers::Model model;
  layers::CompileOptions compile;
  std::string optimizer{};  // as the option spells it; empty: the model's own
};

// Optimizers with fewer slots a weight, frozen layers, half the units and filters (outputs stay),
// images of half the height and width; in this order. `compile` has an optimizer.
std::vector<ModelVariant> find_variants(const layers::Model& model,
                                        const layers::CompileOptions& compile);

}  // namespace plimsoll::planning
