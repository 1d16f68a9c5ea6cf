#include "layers/kinds/weighted.h"

#include "layers/config/constraints.h"
#include "layers/config/initializers.h"
#include "layers/config/regularizers.h"

namespace plimsoll::layers {

KernelOptions read_kernel_options(ConfigReader& reader, const std::vector<std::string>& prefixes) {
  KernelOptions options;
  options.kernels.resize(prefixes.size());
  const auto for_each = [&](const char* what, auto read) {
    for (size_t i = 0; i < prefixes.size(); ++i) read(options.kernels[i], prefixes[i] + what);
    read(options.bias, std::string("bias") + what);
  };
  options.activation = read_activation_key(reader);
  options.use_bias = reader.flag("use_bias", true);
  for_each("_initializer", [&](WeightOptions& weight, const std::string& key) {
    const bool is_bias = &weight == &options.bias;
    weight.initializer = read_initializer(reader, key, is_bias ? "zeros" : "glorot_uniform");
  });
  for_each("_regularizer", [&](WeightOptions& weight, const std::string& key) {
    weight.regularizer = read_regularizer(reader, key);
  });
  for_each("_constraint", [&](WeightOptions& weight, const std::string& key) {
    weight.constraint = read_constraint(reader, key);
  });
  reader.refuse_unless_empty("quantization_config", "Train the layer in float32.");
  reader.refuse_unless_empty("lora_rank", "Train the layer whole.");
  reader.refuse_unless_empty("lora_alpha", "Train the layer whole.");
  return options;
}

Weight make_weight(std::string name, std::vector<int64_t> shape, const WeightOptions& options) {
  return {.name = std::move(name),
          .shape = std::move(shape),
          .initializer = options.initializer,
          .regularizer = options.regularizer,
          .trainable = true,
          .constraint = options.constraint};
}

std::vector<Weight> kernel_weights(const KernelOptions& options,
                                   std::vector<int64_t> kernel_shape) {
  const int64_t columns = kernel_shape.back();
  return kernel_weights(options, std::move(kernel_shape), columns);
}

std::vector<Weight> kernel_weights(const KernelOptions& options, std::vector<int64_t> kernel_shape,
                                   int64_t units) {
  std::vector<Weight> weights = {
      make_weight("kernel", std::move(kernel_shape), options.kernels[0])};
  if (options.use_bias) weights.push_back(make_weight("bias", {units}, options.bias));
  return weights;
}

ValueId finish_product(LayerContext& context, const KernelOptions& options, ValueId product) {
  if (options.use_bias) {
    product = context.emit("bias_add", {product, context.weight("bias")});
  }
  return options.activation.apply(context, product);
}

}  // namespace plimsoll::layers
