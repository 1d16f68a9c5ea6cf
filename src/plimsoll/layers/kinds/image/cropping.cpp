// Cropping1D, Cropping2D, Cropping3D: a sequence, an image or a volume without its first and last
// slabs, rows and columns.

#include "layers/kinds/all_layers.h"
#include "layers/kinds/image/borders.h"
#include "layers/kinds/image/spatial.h"

namespace plimsoll::layers {
namespace {

template <int kSpatial>
class Cropping final : public Layer {
 public:
  static constexpr std::string_view kClassName = kSpatial == 1   ? "Cropping1D"
                                                 : kSpatial == 2 ? "Cropping2D"
                                                                 : "Cropping3D";

  explicit Cropping(ConfigReader& reader) : Layer(reader) {
    cropping_ = read_borders(reader, "cropping", kSpatial, Config(kSpatial == 2 ? 0 : 1));
    if constexpr (kSpatial >= 2) channels_first_ = reader.channels_first();
  }

  std::vector<ValueId> call(LayerContext& context, std::span<const ValueId> inputs) const override {
    one_input(context, inputs, kSpatial + 2);
    const ValueId image = to_image(context, inputs[0], channels_first_);
    const ValueId result = add_borders(context, "crop2d", "cropping", image, cropping_);
    return {from_image(context, result, kSpatial, channels_first_)};
  }

 private:
  std::vector<int64_t> cropping_;
  bool channels_first_ = false;
};

}  // namespace

std::shared_ptr<const Layer> make_cropping1d(const Config& config) {
  return construct_layer<Cropping<1>>(config);
}
std::shared_ptr<const Layer> make_cropping2d(const Config& config) {
  return construct_layer<Cropping<2>>(config);
}
std::shared_ptr<const Layer> make_cropping3d(const Config& config) {
  return construct_layer<Cropping<3>>(config);
}

}  // namespace plimsoll::layers
