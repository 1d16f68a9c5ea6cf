#pragma once

// Keras's constraints: projections of a weight that follow each of its updates.
//
// Norms are taken over the constraint's axes, as Keras takes them; the arithmetic is in the
// operators. A constraint never touches optimizer slots, and does not act on initial weights.

#include "graph/builder.h"
#include "layers/config/config.h"
#include "layers/config/config_reader.h"

namespace plimsoll::layers {

// Null, a name ("non_neg") or Keras's object, completed to Keras's object (null stays null). Throws
// kModel with a did-you-mean.
Config complete_constraint(const Config& given);
Config read_constraint(ConfigReader& reader, std::string_view key);
std::vector<std::string> constraint_class_names();

// Appends the projection of `weight`; `name` is the weight's. Throws kModel where the axes are not
// the weight's.
graph::ValueId add_constraint(graph::GraphBuilder& builder, const Config& constraint,
                              graph::ValueId weight, const std::string& name);

}  // namespace plimsoll::layers
