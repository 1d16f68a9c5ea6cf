// Rescaling: x · scale + offset; integers become float32 first.

#include "layers/all_layers.h"

namespace plimsoll::layers {
namespace {

class Rescaling final : public Layer {
 public:
  static constexpr std::string_view kClassName = "Rescaling";

  explicit Rescaling(ConfigReader& reader) : Layer(reader) {
    scale_ = read_scalar(reader, "scale", 1.0);
    offset_ = read_scalar(reader, "offset", 0.0);
  }

  std::vector<ValueId> call(LayerContext& context, std::span<const ValueId> inputs) const override {
    if (inputs.size() != 1) refuse("one input", std::to_string(inputs.size()), "");
    ValueId x = inputs[0];
    if (!is_floating(context.type(x).dtype)) {
      x = context.emit("cast", {x}, {{"dtype", "float32"}});
    }
    return {context.emit("scale_shift", {x}, {{"scale", scale_}, {"offset", offset_}})};
  }

 private:
  static double read_scalar(ConfigReader& reader, std::string_view key, double fallback) {
    const Config given = reader.value(key, fallback);
    if (given.is_array()) {
      reader.refuse(key, "one number for all channels", given.to_json(),
                    "Scale the data beforehand, or use one number.");
    }
    return reader.number(key, fallback);
  }

  double scale_ = 1;
  double offset_ = 0;
};

}  // namespace

std::shared_ptr<const Layer> make_rescaling(const Config& config) {
  return construct_layer<Rescaling>(config);
}

}  // namespace plimsoll::layers
