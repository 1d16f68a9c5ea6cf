// ActivityRegularization: its input as it is, with a penalty of it in the loss.

#include "layers/kinds/all_layers.h"

namespace plimsoll::layers {
namespace {

class ActivityRegularization final : public Layer {
 public:
  static constexpr std::string_view kClassName = "ActivityRegularization";

  explicit ActivityRegularization(ConfigReader& reader) : Layer(reader) {
    const double l1 = reader.number("l1", 0.0);
    const double l2 = reader.number("l2", 0.0);
    set_activity_regularizer(
        Config::Object{{"class_name", "L1L2"}, {"config", Config::Object{{"l1", l1}, {"l2", l2}}}});
  }

  std::vector<ValueId> call(LayerContext& context, std::span<const ValueId> inputs) const override {
    one_input(context, inputs, 0);
    return {inputs[0]};
  }

  bool elementwise() const override { return true; }
};

}  // namespace

std::shared_ptr<const Layer> make_activity_regularization(const Config& config) {
  return construct_layer<ActivityRegularization>(config);
}

}  // namespace plimsoll::layers
