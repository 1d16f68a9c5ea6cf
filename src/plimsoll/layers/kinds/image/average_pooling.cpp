// AveragePooling1D, AveragePooling2D, AveragePooling3D: the mean of each window, padding not
// counted. That of a volume is the mean over columns of means over slabs and rows: how many of them
// lie inside does not depend on each other.

#include "layers/kinds/all_layers.h"
#include "layers/kinds/image/pooling.h"

namespace plimsoll::layers {
namespace {

template <int kSpatial>
class AveragePooling final : public Layer {
 public:
  static constexpr std::string_view kClassName = kSpatial == 1   ? "AveragePooling1D"
                                                 : kSpatial == 2 ? "AveragePooling2D"
                                                                 : "AveragePooling3D";

  explicit AveragePooling(ConfigReader& reader)
      : Layer(reader), options_(read_pooling_options(reader, kSpatial, false)) {}

  std::vector<ValueId> call(LayerContext& context, std::span<const ValueId> inputs) const override {
    one_input(context, inputs, kSpatial + 2);
    const ValueId image = to_image(context, inputs[0], options_.channels_first);
    const ValueId pooled = kSpatial == 3 ? pooled_volume(context, image)
                                         : context.emit("avg_pool2d", {image},
                                                        attributes_on(context.type(image).shape));
    return {from_image(context, pooled, kSpatial, options_.channels_first)};
  }

 private:
  Attributes attributes_on(const Shape& image) const { return pooling_attributes(options_, image); }

  ValueId pooled_volume(LayerContext& context, ValueId volume) const {
    const Shape shape = context.type(volume).shape;
    PoolingOptions slabs_and_rows = options_;
    slabs_and_rows.pool_size.pop_back();
    slabs_and_rows.strides.pop_back();
    ValueId image = volume_as_image(context, volume, Joined::kWidthAndChannels);
    image = context.emit("avg_pool2d", {image},
                         pooling_attributes(slabs_and_rows, context.type(image).shape));
    const Shape pooled = context.type(image).shape;
    const int64_t depth = pooled[1].count;
    const int64_t height = pooled[2].count;
    image = with_dims(context, image, {depth * height, shape[3].count, shape[4].count});
    PoolingOptions columns = options_;
    columns.pool_size = {1, options_.pool_size[2]};
    columns.strides = {1, options_.strides[2]};
    image =
        context.emit("avg_pool2d", {image}, pooling_attributes(columns, context.type(image).shape));
    return with_dims(context, image,
                     {depth, height, context.type(image).shape[2].count, shape[4].count});
  }

  PoolingOptions options_;
};

}  // namespace

std::shared_ptr<const Layer> make_average_pooling1d(const Config& config) {
  return construct_layer<AveragePooling<1>>(config);
}
std::shared_ptr<const Layer> make_average_pooling2d(const Config& config) {
  return construct_layer<AveragePooling<2>>(config);
}
std::shared_ptr<const Layer> make_average_pooling3d(const Config& config) {
  return construct_layer<AveragePooling<3>>(config);
}

}  // namespace plimsoll::layers
