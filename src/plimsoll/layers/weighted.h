#pragma once

// What Dense and Conv2D have in common: a kernel, perhaps a bias, an activation.

#include "layers/activations.h"

namespace plimsoll::layers {

struct KernelOptions {
  bool use_bias = true;
  Activation activation = Activation::parse(Config());
  Config kernel_initializer{};
  Config bias_initializer{};
  Config kernel_regularizer{};
  Config bias_regularizer{};
};

// Reads activation to bias_constraint, in Keras's order.
KernelOptions read_kernel_options(ConfigReader& reader);

// kernel, and bias (columns) where there is one.
std::vector<Weight> kernel_weights(const KernelOptions& options, std::vector<int64_t> kernel_shape);

// Adds bias and activation to a product without them.
ValueId finish_product(LayerContext& context, const KernelOptions& options, ValueId product);

}  // namespace plimsoll::layers
