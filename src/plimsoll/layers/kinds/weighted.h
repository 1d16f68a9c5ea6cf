#pragma once

// What Dense and the convolutions have in common: one or two kernels, perhaps a bias, an
// activation.

#include "layers/kinds/activations.h"

namespace plimsoll::layers {

// How one weight starts, what is added to the loss for it, and what follows its updates.
struct WeightOptions {
  Config initializer{};
  Config regularizer{};
  Config constraint{};
};

struct KernelOptions {
  bool use_bias = true;
  Activation activation = Activation::parse(Config());
  std::vector<WeightOptions> kernels{};  // one per prefix
  WeightOptions bias{};
};

// Reads activation to bias_constraint, in Keras's order: "<prefix>_initializer" and so on for each
// kernel.
KernelOptions read_kernel_options(ConfigReader& reader,
                                  const std::vector<std::string>& prefixes = {"kernel"});

Weight make_weight(std::string name, std::vector<int64_t> shape, const WeightOptions& options);
// kernel, and bias (`units`, or the kernel's last dimension) where there is one.
std::vector<Weight> kernel_weights(const KernelOptions& options, std::vector<int64_t> kernel_shape);
std::vector<Weight> kernel_weights(const KernelOptions& options, std::vector<int64_t> kernel_shape,
                                   int64_t units);

// Adds bias and activation to a product without them.
ValueId finish_product(LayerContext& context, const KernelOptions& options, ValueId product);

}  // namespace plimsoll::layers
