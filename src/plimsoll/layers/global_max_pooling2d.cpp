// GlobalMaxPooling2D: the maximum over all positions, channel by channel.

#include "layers/all_layers.h"

namespace plimsoll::layers {
namespace {

class GlobalMaxPooling2D final : public Layer {
 public:
  static constexpr std::string_view kClassName = "GlobalMaxPooling2D";

  explicit GlobalMaxPooling2D(ConfigReader& reader) : Layer(reader) {
    reader.data_format();
    keepdims_ = reader.flag("keepdims", false);
  }

  std::vector<ValueId> call(LayerContext& context, std::span<const ValueId> inputs) const override {
    one_input(context, inputs, 4);
    return {context.emit_all("global_max_pool2d", {inputs[0]}, {{"keepdims", keepdims_}})[0]};
  }

 private:
  bool keepdims_ = false;
};

}  // namespace

std::shared_ptr<const Layer> make_global_max_pooling2d(const Config& config) {
  return construct_layer<GlobalMaxPooling2D>(config);
}

}  // namespace plimsoll::layers
