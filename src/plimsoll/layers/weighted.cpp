#include "layers/weighted.h"

#include "layers/initializers.h"
#include "layers/regularizers.h"

namespace plimsoll::layers {

KernelOptions read_kernel_options(ConfigReader& reader) {
  KernelOptions options;
  options.activation = read_activation_key(reader);
  options.use_bias = reader.flag("use_bias", true);
  options.kernel_initializer = read_initializer(reader, "kernel_initializer", "glorot_uniform");
  options.bias_initializer = read_initializer(reader, "bias_initializer", "zeros");
  options.kernel_regularizer = read_regularizer(reader, "kernel_regularizer");
  options.bias_regularizer = read_regularizer(reader, "bias_regularizer");
  reader.refuse_unless_empty("activity_regularizer",
                             "Regularize the kernel instead (kernel_regularizer).");
  reader.refuse_unless_empty("kernel_constraint",
                             "Regularize the kernel instead (kernel_regularizer).");
  reader.refuse_unless_empty("bias_constraint", "Regularize the bias instead (bias_regularizer).");
  reader.refuse_unless_empty("quantization_config", "Train the layer in float32.");
  reader.refuse_unless_empty("lora_rank", "Train the layer whole.");
  reader.refuse_unless_empty("lora_alpha", "Train the layer whole.");
  return options;
}

std::vector<Weight> kernel_weights(const KernelOptions& options,
                                   std::vector<int64_t> kernel_shape) {
  const int64_t columns = kernel_shape.back();
  std::vector<Weight> weights;
  weights.push_back({"kernel", std::move(kernel_shape), options.kernel_initializer,
                     options.kernel_regularizer, true});
  if (options.use_bias) {
    weights.push_back(
        {"bias", {columns}, options.bias_initializer, options.bias_regularizer, true});
  }
  return weights;
}

ValueId finish_product(LayerContext& context, const KernelOptions& options, ValueId product) {
  if (options.use_bias) {
    product = context.emit("bias_add", {product, context.weight("bias")});
  }
  return options.activation.apply(context, product);
}

}  // namespace plimsoll::layers
