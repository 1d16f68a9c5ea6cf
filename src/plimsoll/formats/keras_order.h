#pragma once

// The order in which Keras lists the layers of a model, and the groups of a .keras file that follow
// from it.
//
// Weights in a .keras file are found by position: group "layers/dense_1" belongs to the second
// Dense layer in Keras's list, whatever it is called. Keras makes that list anew each time it
// builds a model: a Sequential in the order of adding; a Functional by depth (the longest way to an
// output, deepest first) and, among equals, by a depth-first walk from the outputs. Calls that no
// output depends on are left out. Source: map_graph in keras/src/ops/function.py.

#include <string>
#include <vector>

#include "layers/model.h"

namespace plimsoll::formats {

struct KerasOrder {
  std::vector<layers::LayerId> layers;
  // Per layer of the model: the calls that belong to it, in their order; the position of a call is
  // its "node index" in files.
  std::vector<std::vector<layers::CallId>> calls;
};

KerasOrder keras_order(const layers::Model& model);

// For each of `order.layers`: "layers/conv2d", "layers/conv2d_1", … (a Sequential's InputLayer has
// none: "").
std::vector<std::string> weight_groups(const layers::Model& model, const KerasOrder& order);

}  // namespace plimsoll::formats
