// ReLU: with a slope below a threshold, and a maximum above.

#include "layers/kinds/all_layers.h"

namespace plimsoll::layers {
namespace {

class ReLU final : public Layer {
 public:
  static constexpr std::string_view kClassName = "ReLU";

  explicit ReLU(ConfigReader& reader) : Layer(reader) {
    max_value_ = reader.optional_number("max_value");
    negative_slope_ = not_negative(reader, "negative_slope");
    threshold_ = not_negative(reader, "threshold");
    if (max_value_ && *max_value_ < 0) {
      reader.refuse("max_value", "0 or more", std::to_string(*max_value_));
    }
  }

  std::vector<ValueId> call(LayerContext& context, std::span<const ValueId> inputs) const override {
    one_input(context, inputs, 0);
    Attributes attributes{{"kind", "relu"}};
    if (max_value_) attributes.set("max_value", *max_value_);
    if (negative_slope_ != 0) attributes.set("negative_slope", negative_slope_);
    if (threshold_ != 0) attributes.set("threshold", threshold_);
    return {context.emit("activation", {inputs[0]}, attributes)};
  }

  bool elementwise() const override { return true; }

 private:
  static double not_negative(ConfigReader& reader, std::string_view key) {
    const double value = reader.number(key, 0.0);
    if (!(value >= 0)) reader.refuse(key, "0 or more", std::to_string(value));
    return value;
  }

  std::optional<double> max_value_;
  double negative_slope_ = 0;
  double threshold_ = 0;
};

}  // namespace

std::shared_ptr<const Layer> make_re_lu(const Config& config) {
  return construct_layer<ReLU>(config);
}

}  // namespace plimsoll::layers
