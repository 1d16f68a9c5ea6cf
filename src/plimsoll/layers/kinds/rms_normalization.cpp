// RMSNormalization: each sample's trailing dimensions by their root mean square, then scaled by
// trained numbers.

#include "layers/config/initializers.h"
#include "layers/kinds/all_layers.h"
#include "layers/kinds/scale_shift.h"
#include "layers/kinds/trailing_axes.h"

namespace plimsoll::layers {
namespace {

class RmsNormalization final : public OverTrailingAxes {
 public:
  static constexpr std::string_view kClassName = "RMSNormalization";

  explicit RmsNormalization(ConfigReader& reader)
      : OverTrailingAxes(reader), epsilon_(read_epsilon(reader, 1e-6)) {}

  std::vector<Weight> weights(std::span<const ValueType> inputs) const override {
    const std::vector<int64_t> dims = trailing_dims(inputs);
    if (dims.empty()) return {};
    return {{.name = "scale", .shape = dims, .initializer = complete_initializer("ones")}};
  }

  std::vector<ValueId> call(LayerContext& context, std::span<const ValueId> inputs) const override {
    const Shape shape = one_input(context, inputs, 0);
    return {context.emit_all("rms_norm", {inputs[0], context.weight("scale")},
                             {{"dims", count_axes(shape)}, {"epsilon", epsilon_}})[0]};
  }

 private:
  double epsilon_ = 0;
};

}  // namespace

std::shared_ptr<const Layer> make_rms_normalization(const Config& config) {
  return construct_layer<RmsNormalization>(config);
}

}  // namespace plimsoll::layers
