// GlobalAveragePooling and GlobalMaxPooling over time or over images: one number a channel.

#include "layers/all_layers.h"
#include "layers/spatial.h"

namespace plimsoll::layers {
namespace {

enum class Pool : uint8_t { kAverage, kMax };

template <Pool kPool, int kSpatial>
class GlobalPooling final : public Layer {
 public:
  static constexpr std::string_view kClassName =
      kPool == Pool::kAverage
          ? (kSpatial == 1 ? "GlobalAveragePooling1D" : "GlobalAveragePooling2D")
          : (kSpatial == 1 ? "GlobalMaxPooling1D" : "GlobalMaxPooling2D");

  explicit GlobalPooling(ConfigReader& reader) : Layer(reader) {
    channels_first_ = reader.channels_first();
    keepdims_ = reader.flag("keepdims", false);
  }

  std::vector<ValueId> call(LayerContext& context, std::span<const ValueId> inputs) const override {
    one_input(context, inputs, kSpatial + 2);
    const ValueId image = to_image(context, inputs[0], channels_first_);
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
std::shared_ptr<const Layer> make_global_max_pooling1d(const Config& config) {
  return construct_layer<GlobalPooling<Pool::kMax, 1>>(config);
}
std::shared_ptr<const Layer> make_global_max_pooling2d(const Config& config) {
  return construct_layer<GlobalPooling<Pool::kMax, 2>>(config);
}

}  // namespace plimsoll::layers
