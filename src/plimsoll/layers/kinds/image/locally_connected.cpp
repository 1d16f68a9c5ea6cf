// LocallyConnected1D, LocallyConnected2D of Keras 2: a convolution that has a kernel of its own for
// each place, (places, window · channels, filters), and a bias for each.

#include "base/format.h"
#include "layers/kinds/all_layers.h"
#include "layers/kinds/image/convolution.h"
#include "layers/kinds/operation_call.h"

namespace plimsoll::layers {
namespace {

using Dims = std::vector<int64_t>;

template <int kSpatial>
class LocallyConnected final : public Layer {
 public:
  static constexpr std::string_view kClassName =
      kSpatial == 1 ? "LocallyConnected1D" : "LocallyConnected2D";

  explicit LocallyConnected(ConfigReader& reader) : Layer(reader) {
    filters_ = reader.integer("filters", 1);
    kernel_size_ = reader.sizes("kernel_size", size_t{kSpatial}, 1);
    strides_ = reader.sizes("strides", Dims(size_t{kSpatial}, 1), 1);
    reader.choice("padding", "valid", {"valid"});
    channels_first_ = reader.channels_first();
    options_ = read_kernel_options(reader);
    const int64_t way = reader.integer("implementation", 1, 1);
    if (way != 1) {
      reader.refuse("implementation", "1", std::to_string(way),
                    "The others keep their kernels in another form: rebuild the model with "
                    "implementation=1.");
    }
  }

  std::vector<Weight> weights(std::span<const ValueType> inputs) const override {
    if (inputs.size() != 1 || inputs[0].shape.rank() != kSpatial + 2) return {};
    const Shape& x = inputs[0].shape;
    const int first = channels_first_ ? 2 : 1;
    Dims places;
    int64_t all = 1;
    int64_t window = channels_of(x, channels_first_);
    for (int d = 0; d < kSpatial; ++d) {
      const auto at = static_cast<size_t>(d);
      places.push_back((x[first + d].count - kernel_size_[at]) / strides_[at] + 1);
      if (x[first + d].count < kernel_size_[at]) {
        refuse(fmt::format("{} or more places", kernel_size_[at]),
               std::to_string(x[first + d].count), "Choose a smaller kernel_size.");
      }
      all *= places.back();
      window *= kernel_size_[at];
    }
    std::vector<Weight> weights = {
        make_weight("kernel", {all, window, filters_}, options_.kernels[0])};
    if (!options_.use_bias) return weights;
    places.push_back(filters_);
    weights.push_back(make_weight("bias", places, options_.bias));
    return weights;
  }

  std::vector<ValueId> call(LayerContext& context, std::span<const ValueId> inputs) const override {
    one_input(context, inputs, kSpatial + 2);
    const ValueId image = to_image(context, inputs[0], channels_first_);
    const ValueId windows = windows_of(context, image);
    const Dims dims = dims_of(context, windows);
    const ValueId rows = reshaped(context, windows, {dims[0] * dims[1], dims[2]});
    const ValueId operands[] = {rows, context.weight("kernel")};
    ValueId y = einsum(context, "bpk,pkf->bpf", operands);
    y = reshaped(context, y, {dims[0], dims[1], filters_});
    if (options_.use_bias) {
      const ValueId bias = context.emit("reshape", {context.weight("bias")},
                                        {{"shape", Dims{dims[0], dims[1], filters_}}});
      y = context.emit("add", {y, over_batch(context, bias, context.type(y).shape)});
    }
    return {options_.activation.apply(context, from_image(context, y, kSpatial, channels_first_))};
  }

  bool penalizes_activity() const override {
    return Layer::penalizes_activity() || options_.activation.penalizes_activity();
  }

 private:
  // (B, rows, columns, window · channels): for each place of the output what its kernel looks at,
  // in the order of the kernel's rows.
  ValueId windows_of(LayerContext& context, ValueId image) const {
    const Dims sizes = both_dimensions(kernel_size_);
    const Dims strides = both_dimensions(strides_);
    const Shape shape = context.type(image).shape;
    const auto places = [&](int64_t axis, int64_t begin) {
      const auto at = static_cast<size_t>(axis - 1);
      const int64_t count = (shape[static_cast<int>(axis)].count - sizes[at]) / strides[at] + 1;
      Dims list;
      for (int64_t i = 0; i < count; ++i) list.push_back(begin + i * strides[at]);
      return list;
    };
    std::vector<ValueId> parts;
    for (int64_t i = 0; i < sizes[0]; ++i) {
      const ValueId row = taken(context, image, 1, places(1, i));
      for (int64_t j = 0; j < sizes[1]; ++j) {
        parts.push_back(taken(context, row, 2, places(2, j)));
      }
    }
    const ValueId all = parts.size() == 1 ? parts[0] : context.emit("concat", parts, {{"axis", 3}});
    if (!channels_first_) return all;
    // There the channels come before the window.
    const Dims dims = dims_of(context, all);
    const int64_t window = sizes[0] * sizes[1];
    const ValueId apart = reshaped(context, all, {dims[0], dims[1], window, dims[2] / window});
    return reshaped(context, permuted(context, apart, {1, 2, 4, 3}), dims);
  }

  int64_t filters_ = 1;
  Dims kernel_size_;
  Dims strides_;
  bool channels_first_ = false;
  KernelOptions options_;
};

}  // namespace

std::shared_ptr<const Layer> make_locally_connected1d(const Config& config) {
  return construct_layer<LocallyConnected<1>>(config);
}
std::shared_ptr<const Layer> make_locally_connected2d(const Config& config) {
  return construct_layer<LocallyConnected<2>>(config);
}

}  // namespace plimsoll::layers
