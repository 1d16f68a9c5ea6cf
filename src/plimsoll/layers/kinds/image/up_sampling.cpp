// UpSampling1D, UpSampling2D: sequences and images a whole number of times as large.

#include "layers/kinds/all_layers.h"
#include "layers/kinds/image/spatial.h"

namespace plimsoll::layers {
namespace {

template <int kSpatial>
class UpSampling final : public Layer {
 public:
  static constexpr std::string_view kClassName = kSpatial == 1 ? "UpSampling1D" : "UpSampling2D";

  explicit UpSampling(ConfigReader& reader) : Layer(reader) {
    if constexpr (kSpatial == 1) {
      size_ = reader.sizes("size", std::vector<int64_t>{2}, 1);
      reader.complete("size", size_[0]);
    } else {
      size_ = reader.sizes("size", {2, 2}, 1);
      channels_first_ = reader.channels_first();
      read_interpolation(reader);
    }
  }

  std::vector<ValueId> call(LayerContext& context, std::span<const ValueId> inputs) const override {
    one_input(context, inputs, kSpatial + 2);
    const ValueId image = to_image(context, inputs[0], channels_first_);
    const ValueId result =
        context.emit("upsample2d", {image},
                     {{"size", both_dimensions(size_)}, {"interpolation", interpolation_}});
    return {from_image(context, result, kSpatial, channels_first_)};
  }

 private:
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

}  // namespace plimsoll::layers
