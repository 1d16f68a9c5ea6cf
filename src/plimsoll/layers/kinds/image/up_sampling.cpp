// UpSampling1D, UpSampling2D, UpSampling3D: sequences, images and volumes a whole number of times
// as large.

#include "layers/kinds/all_layers.h"
#include "layers/kinds/image/spatial.h"

namespace plimsoll::layers {
namespace {

template <int kSpatial>
class UpSampling final : public Layer {
 public:
  static constexpr std::string_view kClassName = kSpatial == 1   ? "UpSampling1D"
                                                 : kSpatial == 2 ? "UpSampling2D"
                                                                 : "UpSampling3D";

  explicit UpSampling(ConfigReader& reader) : Layer(reader) {
    if constexpr (kSpatial == 1) {
      size_ = reader.sizes("size", std::vector<int64_t>{2}, 1);
      reader.complete("size", size_[0]);
    } else {
      size_ = reader.sizes("size", std::vector<int64_t>(kSpatial, 2), 1);
      channels_first_ = reader.channels_first();
      if constexpr (kSpatial == 2) read_interpolation(reader);
    }
  }

  std::vector<ValueId> call(LayerContext& context, std::span<const ValueId> inputs) const override {
    one_input(context, inputs, kSpatial + 2);
    const ValueId image = to_image(context, inputs[0], channels_first_);
    const ValueId result = kSpatial == 3 ? larger_volume(context, image)
                                         : larger(context, image, both_dimensions(size_));
    return {from_image(context, result, kSpatial, channels_first_)};
  }

 private:
  ValueId larger(LayerContext& context, ValueId image, std::vector<int64_t> size) const {
    return context.emit("upsample2d", {image},
                        {{"size", std::move(size)}, {"interpolation", interpolation_}});
  }

  // Rows and columns of all slabs, then slabs.
  ValueId larger_volume(LayerContext& context, ValueId volume) const {
    const Shape shape = context.type(volume).shape;
    const int64_t depth = shape[1].count;
    const int64_t height = shape[2].count * size_[1];
    const int64_t width = shape[3].count * size_[2];
    ValueId image = volume_as_image(context, volume, Joined::kDepthAndHeight);
    image = larger(context, image, {size_[1], size_[2]});
    image = with_dims(context, image, {depth, height * width, shape[4].count});
    image = larger(context, image, {size_[0], 1});
    return with_dims(context, image, {depth * size_[0], height, width, shape[4].count});
  }

  void read_interpolation(ConfigReader& reader) {
    const Config given = reader.value("interpolation", "nearest");
    for (const char* word : {"bicubic", "lanczos3", "lanczos5"}) {
      if (given == Config(word)) {
        reader.refuse("interpolation", "\"nearest\" or \"bilinear\"", given.to_json(),
                      "Use bilinear, or a Conv2DTranspose that learns it.");
      }
    }
    interpolation_ = reader.choice("interpolation", "nearest", {"nearest", "bilinear"});
  }

  std::vector<int64_t> size_;
  bool channels_first_ = false;
  std::string interpolation_ = "nearest";
};

}  // namespace

std::shared_ptr<const Layer> make_up_sampling1d(const Config& config) {
  return construct_layer<UpSampling<1>>(config);
}
std::shared_ptr<const Layer> make_up_sampling2d(const Config& config) {
  return construct_layer<UpSampling<2>>(config);
}
std::shared_ptr<const Layer> make_up_sampling3d(const Config& config) {
  return construct_layer<UpSampling<3>>(config);
}

}  // namespace plimsoll::layers
