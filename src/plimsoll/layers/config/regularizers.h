#pragma once

// Keras's L1, L2 and L1L2 penalties: factors times Σ|w| and Σw² of a weight, and the same of a
// layer's output, divided by the samples of the batch. The latter are reductions over the batch, so
// that slices of it give the same sum. OrthogonalRegularizer: of a matrix, how far its rows or its
// columns are from being orthogonal.

#include "graph/builder.h"
#include "layers/config/config.h"
#include "layers/config/config_reader.h"

namespace plimsoll::layers {

// Null, a name ("l2") or Keras's object, completed to Keras's object (null stays null). Throws
// kModel with a did-you-mean.
Config complete_regularizer(const Config& given);
std::vector<std::string> regularizer_class_names();
Config read_regularizer(ConfigReader& reader, std::string_view key);

// Appends the penalty of `weight`, a scalar; invalid where it is zero by its factors. `name` is the
// weight's.
graph::ValueId add_penalty(graph::GraphBuilder& builder, const Config& regularizer,
                           graph::ValueId weight, const std::string& name);

// Reads what a layer's outputs are penalized by; printed only where it says something, as Keras
// does.
Config read_activity_regularizer(ConfigReader& reader);
// Appends the penalty of a layer's output (B, …) in float32; invalid where it is zero by its
// factors.
graph::ValueId add_activity_penalty(graph::GraphBuilder& builder, const Config& regularizer,
                                    graph::ValueId output, const std::string& name);

}  // namespace plimsoll::layers
