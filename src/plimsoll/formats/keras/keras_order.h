#pragma once

// The order in which Keras lists the layers of a model, and the groups of a .keras file that follow
// from it.
//
// Weights in a .keras file are found by position: group "layers/dense_1" belongs to the second
// Dense layer in Keras's list, whatever it is called. Keras makes that list anew each time it
// builds a model: a Sequential in the order of adding; a Functional by depth (the longest way to an
// output, deepest first) and, among equals, by a depth-first walk from the outputs. Calls that no
// output depends on are left out. Models inside models are lists of their own; operators stand in
// the list but have no group. Source: map_graph in keras/src/ops/function.py.

#include <string>
#include <utility>
#include <vector>

#include "layers/model/model_tree.h"

namespace plimsoll::formats {

struct KerasOrder {
  std::vector<size_t> nodes;  // positions in the tree's nodes
  // Per node of the tree: the calls that belong to the model, in their order; the position of a
  // call is its "node index" in files.
  std::vector<std::vector<size_t>> calls;
};

// The order of one level. The tree has no cycles.
KerasOrder keras_order(const layers::ModelTree& tree);

// (node, call) of each call that an output depends on, in the order in which Keras makes them when
// the model runs: by depth, and within one depth as its walk finds them.
std::vector<std::pair<size_t, size_t>> keras_run_order(const layers::ModelTree& tree);

// For each of `order.nodes`: "layers/conv2d", "layers/conv2d_1", … (an operator and a Sequential's
// InputLayer have none: ""). `counted_twice`, per node of the tree, or empty: Keras 2.13 listed
// each layer with weights a second time, which made no group but counted: "conv2d", "conv2d_2".
std::vector<std::string> weight_groups(const layers::ModelTree& tree, const KerasOrder& order,
                                       const std::vector<bool>& counted_twice = {});

}  // namespace plimsoll::formats
