#pragma once

// The program that gives every state variable its first value.

#include <optional>

#include "layers/model/model.h"
#include "layers/training/optimizers.h"

namespace plimsoll::layers {

// Writes all weights of the model by their initializers, and of `states` (those of the other
// programs) the constants, the learning rate, and zero to everything else.
graph::Graph initialize_graph(const Model& model, const std::optional<Optimizer>& optimizer,
                              const Constants& constants,
                              const std::vector<graph::StateVariable>& states);

}  // namespace plimsoll::layers
