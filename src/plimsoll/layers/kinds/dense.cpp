// Dense: activation(x · kernel + bias) over the last dimension.

#include "layers/kinds/all_layers.h"
#include "layers/kinds/weighted.h"

namespace plimsoll::layers {
namespace {

class Dense final : public Layer {
 public:
  static constexpr std::string_view kClassName = "Dense";

  explicit Dense(ConfigReader& reader)
      : Layer(reader), units_(reader.integer("units", 1)), options_(read_kernel_options(reader)) {}

  std::vector<Weight> weights(std::span<const ValueType> inputs) const override {
    if (inputs.size() != 1 || inputs[0].shape.rank() < 2) return {};
    const Shape& shape = inputs[0].shape;
    return kernel_weights(options_, {shape[shape.rank() - 1].count, units_});
  }

  std::vector<ValueId> call(LayerContext& context, std::span<const ValueId> inputs) const override {
    one_input(context, inputs, 0);
    const ValueId product =
        context.emit("dense", {inputs[0], context.weight("kernel")},
                     {{"units", units_}, {"use_bias", false}, {"activation", "linear"}});
    return {finish_product(context, options_, product)};
  }

  bool penalizes_activity() const override {
    return Layer::penalizes_activity() || options_.activation.penalizes_activity();
  }

 private:
  int64_t units_;
  KernelOptions options_;
};

}  // namespace

std::shared_ptr<const Layer> make_dense(const Config& config) {
  return construct_layer<Dense>(config);
}

}  // namespace plimsoll::layers
