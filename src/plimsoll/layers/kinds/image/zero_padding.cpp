// ZeroPadding1D, ZeroPadding2D, ZeroPadding3D: zeros around a sequence, an image or a volume.

#include "layers/kinds/all_layers.h"
#include "layers/kinds/image/borders.h"
#include "layers/kinds/image/spatial.h"

namespace plimsoll::layers {
namespace {

template <int kSpatial>
class ZeroPadding final : public Layer {
 public:
  static constexpr std::string_view kClassName = kSpatial == 1   ? "ZeroPadding1D"
                                                 : kSpatial == 2 ? "ZeroPadding2D"
                                                                 : "ZeroPadding3D";

  explicit ZeroPadding(ConfigReader& reader) : Layer(reader) {
    padding_ = read_borders(reader, "padding", kSpatial, Config(1));
    channels_first_ = reader.channels_first();
  }

  std::vector<ValueId> call(LayerContext& context, std::span<const ValueId> inputs) const override {
    one_input(context, inputs, kSpatial + 2);
    const ValueId image = to_image(context, inputs[0], channels_first_);
    const ValueId result = add_borders(context, "zero_pad2d", "padding", image, padding_);
    return {from_image(context, result, kSpatial, channels_first_)};
  }

 private:
  std::vector<int64_t> padding_;
  bool channels_first_ = false;
};

}  // namespace

std::shared_ptr<const Layer> make_zero_padding1d(const Config& config) {
  return construct_layer<ZeroPadding<1>>(config);
}
std::shared_ptr<const Layer> make_zero_padding2d(const Config& config) {
  return construct_layer<ZeroPadding<2>>(config);
}
std::shared_ptr<const Layer> make_zero_padding3d(const Config& config) {
  return construct_layer<ZeroPadding<3>>(config);
}

}  // namespace plimsoll::layers
