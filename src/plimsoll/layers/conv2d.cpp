// Conv2D: activation(conv2d(x, kernel) + bias), channels last.

#include "layers/all_layers.h"
#include "layers/spatial.h"
#include "layers/weighted.h"

namespace plimsoll::layers {
namespace {

class Conv2D final : public Layer {
 public:
  static constexpr std::string_view kClassName = "Conv2D";

  explicit Conv2D(ConfigReader& reader) : Layer(reader) {
    filters_ = reader.integer("filters", 1);
    kernel_size_ = reader.pair("kernel_size", 1);
    strides_ = reader.pair("strides", {1, 1}, 1);
    padding_ = read_padding(reader);
    reader.data_format();
    dilation_rate_ = reader.pair("dilation_rate", {1, 1}, 1);
    groups_ = reader.integer("groups", 1, 1);
    if (filters_ % groups_ != 0) {
      reader.refuse("groups", "a divisor of filters=" + std::to_string(filters_),
                    std::to_string(groups_));
    }
    options_ = read_kernel_options(reader);
  }

  std::vector<Weight> weights(std::span<const ValueType> inputs) const override {
    if (inputs.size() != 1 || inputs[0].shape.rank() != 4) return {};
    const int64_t channels = inputs[0].shape[3].count;
    if (channels % groups_ != 0) {
      refuse("channels that are a multiple of groups=" + std::to_string(groups_),
             std::to_string(channels), "Change groups.");
    }
    return kernel_weights(options_,
                          {kernel_size_[0], kernel_size_[1], channels / groups_, filters_});
  }

  std::vector<ValueId> call(LayerContext& context, std::span<const ValueId> inputs) const override {
    const Shape shape = one_input(context, inputs, 4);
    const ValueId product =
        context.emit("conv2d", {inputs[0], context.weight("kernel")},
                     {{"filters", filters_},
                      {"kernel_size", kernel_size_},
                      {"strides", strides_},
                      {"padding", window_padding(padding_, shape[1].count, shape[2].count,
                                                 kernel_size_, strides_, dilation_rate_)},
                      {"dilation_rate", dilation_rate_},
                      {"groups", groups_},
                      {"use_bias", false},
                      {"activation", "linear"}});
    return {finish_product(context, options_, product)};
  }

 private:
  static std::string read_padding(ConfigReader& reader) {
    const Config given = reader.value("padding", "valid");
    if (given.is_string() && given.as_string() == "causal") {
      reader.refuse("padding", "\"valid\" or \"same\"", "\"causal\"",
                    "Causal padding exists in one dimension only: put a ZeroPadding2D before the "
                    "layer and use \"valid\".");
    }
    return reader.choice("padding", "valid", {"valid", "same"});
  }

  int64_t filters_ = 1;
  std::vector<int64_t> kernel_size_;
  std::vector<int64_t> strides_;
  std::string padding_;
  std::vector<int64_t> dilation_rate_;
  int64_t groups_ = 1;
  KernelOptions options_;
};

}  // namespace

std::shared_ptr<const Layer> make_conv2d(const Config& config) {
  return construct_layer<Conv2D>(config);
}

}  // namespace plimsoll::layers
