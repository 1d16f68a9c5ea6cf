// AdaptiveAveragePooling and AdaptiveMaxPooling over time, images or volumes: as many outputs as
// are asked for, whatever the input's size.
//
// Output i of `outputs` along a dimension of n rows has rows [⌊i n / outputs⌋, ⌈(i + 1) n /
// outputs⌉). Dimensions are pooled one after the other, as Keras does: a mean of means, and under
// ties the winner of each dimension (a volume's: max_pool3d). Where n and `outputs` have the
// divisor g, the windows repeat g times: window j of a period is one pooling with the period as its
// stride, and the poolings are joined side by side.

#include <numeric>

#include "base/ceil_div.h"
#include "base/format.h"
#include "layers/kinds/all_layers.h"
#include "layers/kinds/image/spatial.h"

namespace plimsoll::layers {
namespace {

enum class Pool : uint8_t { kAverage, kMax };

// Different windows of a dimension: each is a few nodes.
constexpr int64_t kMostWindows = 256;
// Positions of a window that one byte can tell apart.
constexpr int64_t kMostByteWinners = 256;

template <Pool kPool, int kSpatial>
class AdaptivePooling final : public Layer {
 public:
  static constexpr std::string_view kClassName =
      kPool == Pool::kAverage ? (kSpatial == 1   ? "AdaptiveAveragePooling1D"
                                 : kSpatial == 2 ? "AdaptiveAveragePooling2D"
                                                 : "AdaptiveAveragePooling3D")
                              : (kSpatial == 1   ? "AdaptiveMaxPooling1D"
                                 : kSpatial == 2 ? "AdaptiveMaxPooling2D"
                                                 : "AdaptiveMaxPooling3D");

  explicit AdaptivePooling(ConfigReader& reader) : Layer(reader) {
    output_size_ = reader.sizes("output_size", kSpatial, 1);
    channels_first_ = reader.channels_first();
  }

  std::vector<ValueId> call(LayerContext& context, std::span<const ValueId> inputs) const override {
    one_input(context, inputs, kSpatial + 2);
    ValueId x = channels_first_ ? context.channels_last(inputs[0]) : inputs[0];
    for (size_t d = 0; d < kSpatial; ++d) x = pooled(context, x, d);
    return {channels_first_ ? context.channels_first(x) : x};
  }

 private:
  // With dimension d pooled.
  ValueId pooled(LayerContext& context, ValueId x, size_t d) const {
    std::vector<int64_t> dims;
    const Shape shape = context.type(x).shape;
    for (const Dim& dim : shape.dims().subspan(1)) dims.push_back(dim.count);
    const auto at = dims.begin() + static_cast<std::ptrdiff_t>(d);
    const auto product = std::multiplies<>();
    const int64_t outer = std::accumulate(dims.begin(), at, int64_t{1}, product);
    const int64_t inner = std::accumulate(at + 1, dims.end(), int64_t{1}, product);
    const int64_t repeats = std::gcd(dims[d], output_size_[d]);
    const int64_t step = dims[d] / repeats;
    const int64_t windows = output_size_[d] / repeats;
    if (windows > kMostWindows) {
      refuse(fmt::format("an output_size that makes at most {} different windows", kMostWindows),
             fmt::format("{} of {} rows", output_size_[d], dims[d]),
             "Choose an output_size that has a divisor in common with the input's size.");
    }
    const ValueId image = with_dims(context, x, {outer, dims[d], inner});
    std::vector<ValueId> parts;
    for (int64_t j = 0; j < windows; ++j) {
      const int64_t first = j * step / windows;
      const int64_t size = ceil_div((j + 1) * step, windows) - first;
      const int64_t rest = dims[d] - (repeats - 1) * step - size - first;
      const ValueId part = pool(context, cropped(context, image, first, rest), size, step);
      if (windows == 1) {
        dims[d] = output_size_[d];
        return with_dims(context, part, dims);
      }
      parts.push_back(with_dims(context, part, {outer * repeats, 1, inner}));
    }
    dims[d] = output_size_[d];
    return with_dims(context, context.emit("concat", parts, {{"axis", 2}}), dims);
  }

  static ValueId cropped(LayerContext& context, ValueId image, int64_t left, int64_t right) {
    if (left == 0 && right == 0) return image;
    const std::vector<int64_t> cropping = {0, 0, left, right};
    return context.emit("crop2d", {image}, {{"cropping", cropping}});
  }

  // Pools along the columns.
  static ValueId pool(LayerContext& context, ValueId image, int64_t size, int64_t stride) {
    if (size == 1 && stride == 1) return image;
    if constexpr (kPool == Pool::kMax && kSpatial == 3) {
      const Shape shape = context.type(image).shape;
      const ValueId volume =
          with_dims(context, image, {shape[1].count, shape[2].count, 1, shape[3].count});
      const Attributes attributes{{"pool_size", std::vector<int64_t>{1, size, 1}},
                                  {"strides", std::vector<int64_t>{1, stride, 1}},
                                  {"padding", std::vector<int64_t>(6, 0)}};
      const ValueId most = context.emit_all("max_pool3d", {volume}, attributes)[0];
      return volume_as_image(context, most, Joined::kHeightAndWidth);
    }
    Attributes attributes{{"pool_size", std::vector<int64_t>{1, size}},
                          {"strides", std::vector<int64_t>{1, stride}},
                          {"padding", std::vector<int64_t>(4, 0)}};
    if (kPool == Pool::kAverage) return context.emit("avg_pool2d", {image}, attributes);
    attributes.set("winner_dtype", size <= kMostByteWinners ? "uint8" : "int32");
    return context.emit_all("max_pool2d", {image}, attributes)[0];
  }

  std::vector<int64_t> output_size_;
  bool channels_first_ = false;
};

}  // namespace

std::shared_ptr<const Layer> make_adaptive_average_pooling1d(const Config& config) {
  return construct_layer<AdaptivePooling<Pool::kAverage, 1>>(config);
}
std::shared_ptr<const Layer> make_adaptive_average_pooling2d(const Config& config) {
  return construct_layer<AdaptivePooling<Pool::kAverage, 2>>(config);
}
std::shared_ptr<const Layer> make_adaptive_average_pooling3d(const Config& config) {
  return construct_layer<AdaptivePooling<Pool::kAverage, 3>>(config);
}
std::shared_ptr<const Layer> make_adaptive_max_pooling1d(const Config& config) {
  return construct_layer<AdaptivePooling<Pool::kMax, 1>>(config);
}
std::shared_ptr<const Layer> make_adaptive_max_pooling2d(const Config& config) {
  return construct_layer<AdaptivePooling<Pool::kMax, 2>>(config);
}
std::shared_ptr<const Layer> make_adaptive_max_pooling3d(const Config& config) {
  return construct_layer<AdaptivePooling<Pool::kMax, 3>>(config);
}

}  // namespace plimsoll::layers
