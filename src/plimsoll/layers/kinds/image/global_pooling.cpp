// GlobalAveragePooling and GlobalMaxPooling over time, images or volumes: one number a channel.

#include "layers/kinds/all_layers.h"
#include "layers/kinds/image/spatial.h"

namespace plimsoll::layers {
namespace {

enum class Pool : uint8_t { kAverage, kMax };

template <Pool kPool, int kSpatial>
class GlobalPooling final : public Layer {
 public:
  static constexpr std::string_view kClassName = kPool == Pool::kAverage
                                                     ? (kSpatial == 1   ? "GlobalAveragePooling1D"
                                                        : kSpatial == 2 ? "GlobalAveragePooling2D"
                                                                        : "GlobalAveragePooling3D")
                                                     : (kSpatial == 1   ? "GlobalMaxPooling1D"
                                                        : kSpatial == 2 ? "GlobalMaxPooling2D"
                                                                        : "GlobalMaxPooling3D");

  explicit GlobalPooling(ConfigReader& reader) : Layer(reader) {
    channels_first_ = reader.channels_first();
    keepdims_ = reader.flag("keepdims", false);
  }

  std::vector<ValueId> call(LayerContext& context, std::span<const ValueId> inputs) const override {
    one_input(context, inputs, kSpatial + 2);
    // Keras's other layers of this family do not look at masks.
    if (kPool == Pool::kAverage && kSpatial == 1 && context.mask(0).valid()) {
      return {masked_mean(context, inputs[0], context.mask(0))};
    }
    ValueId image = to_image(context, inputs[0], channels_first_);
    if (kSpatial == 3) image = volume_as_image(context, image, Joined::kDepthAndHeight);
    const std::string_view op =
        kPool == Pool::kAverage ? "global_average_pool2d" : "global_max_pool2d";
    const ValueId pooled = context.emit_all(op, {image}, {{"keepdims", false}})[0];
    if (!keepdims_) return {pooled};
    std::vector<int64_t> shape(kSpatial, 1);
    shape.insert(channels_first_ ? shape.begin() : shape.end(),
                 context.type(pooled).shape[1].count);
    return {context.emit("reshape", {pooled}, {{"shape", shape}})};
  }

 private:
  // The mean of the steps that count: Σ x over how many they are.
  ValueId masked_mean(LayerContext& context, ValueId x, ValueId mask) const {
    if (context.type(mask).shape.rank() != 2) {
      refuse("a mask of the steps", to_string(context.type(mask).shape),
             "End the mask before the layer, by a Reshape.");
    }
    if (channels_first_) x = context.channels_last(x);
    const Shape shape = context.type(x).shape;
    if (context.type(mask).shape[1] != shape[1]) {  // of another axis, by which Keras would repeat
      refuse("a mask of the axis that is averaged, of " + std::to_string(shape[1].count),
             to_string(context.type(mask).shape), "End the mask before the layer, by a Reshape.");
    }
    const std::vector<int64_t> row = {1, shape[2].count};
    const std::vector<int64_t> one = {1, 1};
    const ValueId sum = context.emit("sum_to", {context.emit("apply_mask", {x, mask})},
                                     {{"shape", row}, {"batched", true}});
    ValueId counts = context.emit("cast", {mask}, {{"dtype", "float32"}});
    counts =
        context.emit("reshape", {counts}, {{"shape", std::vector<int64_t>{shape[1].count, 1}}});
    counts = context.emit("sum_to", {counts}, {{"shape", one}, {"batched", true}});
    counts = context.emit("broadcast", {counts}, {{"shape", row}});
    const ValueId mean = context.emit("divide", {sum, counts});
    if (keepdims_ && !channels_first_) return mean;
    if (keepdims_) return context.channels_first(mean);
    return context.emit("reshape", {mean}, {{"shape", std::vector<int64_t>{shape[2].count}}});
  }

  bool channels_first_ = false;
  bool keepdims_ = false;
};

}  // namespace

std::shared_ptr<const Layer> make_global_average_pooling1d(const Config& config) {
  return construct_layer<GlobalPooling<Pool::kAverage, 1>>(config);
}
std::shared_ptr<const Layer> make_global_average_pooling2d(const Config& config) {
  return construct_layer<GlobalPooling<Pool::kAverage, 2>>(config);
}
std::shared_ptr<const Layer> make_global_average_pooling3d(const Config& config) {
  return construct_layer<GlobalPooling<Pool::kAverage, 3>>(config);
}
std::shared_ptr<const Layer> make_global_max_pooling1d(const Config& config) {
  return construct_layer<GlobalPooling<Pool::kMax, 1>>(config);
}
std::shared_ptr<const Layer> make_global_max_pooling2d(const Config& config) {
  return construct_layer<GlobalPooling<Pool::kMax, 2>>(config);
}
std::shared_ptr<const Layer> make_global_max_pooling3d(const Config& config) {
  return construct_layer<GlobalPooling<Pool::kMax, 3>>(config);
}

}  // namespace plimsoll::layers
