#pragma once

// Operator nodes of Functional graphs (`x + 1`, `x[:, -1]`, keras.ops.reshape(x, …)) as the layer
// that computes them. Internal to formats.
//
// Keras 3 lists an operator beside the layers with a module of its own, and says the rest in the
// arguments of its call; the layer gets those with the call (layers::LayerCall).

#include <string_view>

#include "layers/config/config.h"
#include "layers/model/model_tree.h"

namespace plimsoll::formats {

// By the node's module: keras.src.ops or keras.ops, or keras.src.activations, whose functions are
// operators where they have no other layer.
bool is_operator(const layers::TreeNode& node);
bool is_operator_module(std::string_view module);

// The configuration of the flat layer that computes it.
layers::Config operator_config(const layers::TreeNode& node);

}  // namespace plimsoll::formats
