// LeakyReLU: x above zero, a part of it below.

#include "layers/kinds/all_layers.h"

namespace plimsoll::layers {
namespace {

class LeakyReLU final : public Layer {
 public:
  static constexpr std::string_view kClassName = "LeakyReLU";

  explicit LeakyReLU(ConfigReader& reader) : Layer(reader) {
    const Config alpha = reader.legacy("alpha");  // its name before Keras 3
    negative_slope_ = reader.number("negative_slope", alpha.is_number() ? alpha.as_double() : 0.3);
    if (!(negative_slope_ >= 0)) {
      reader.refuse("negative_slope", "0 or more", std::to_string(negative_slope_));
    }
  }

  std::vector<ValueId> call(LayerContext& context, std::span<const ValueId> inputs) const override {
    one_input(context, inputs, 0);
    return {context.emit("activation", {inputs[0]},
                         {{"kind", "leaky_relu"}, {"negative_slope", negative_slope_}})};
  }

  bool elementwise() const override { return true; }

 private:
  double negative_slope_ = 0;
};

}  // namespace

std::shared_ptr<const Layer> make_leaky_re_lu(const Config& config) {
  return construct_layer<LeakyReLU>(config);
}

}  // namespace plimsoll::layers
