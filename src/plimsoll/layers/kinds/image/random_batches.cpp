// MixUp, CutMix and Equalization: what training makes of each image by the other images of its
// batch, and evaluation leaves alone.

#include "layers/kinds/all_layers.h"
#include "layers/kinds/image/image_options.h"

namespace plimsoll::layers {
namespace {

// Keras adds it to what it draws for alpha.
constexpr double kLeastAlpha = 1e-6;
constexpr double kMostAlpha = 1e6;

class Mixing : public Layer {
 public:
  std::vector<ValueId> call(LayerContext& context, std::span<const ValueId> inputs) const override {
    ValueId image = one_image(context, inputs, channels_first_);
    if (context.training()) {
      image = context.emit("image_mix", {image, image},
                           {{"kind", kind_},
                            {"alpha_lower", alpha_.lower},
                            {"alpha_upper", alpha_.upper},
                            {"site", context.call_site()}});
    }
    return {give_image(context, image, channels_first_)};
  }

  bool mixes_samples() const override { return true; }

 protected:
  Mixing(ConfigReader& reader, std::string kind)
      : Layer(reader), kind_(std::move(kind)), channels_first_(read_layout(reader)) {}
  void set_alpha(const Range& alpha) { alpha_ = alpha; }

 private:
  std::string kind_;
  bool channels_first_;
  Range alpha_;
};

class MixUp final : public Mixing {
 public:
  static constexpr std::string_view kClassName = "MixUp";

  explicit MixUp(ConfigReader& reader) : Mixing(reader, "blend") {
    const double alpha = reader.number("alpha", 0.2);
    if (!(alpha >= kLeastAlpha && alpha <= kMostAlpha)) {
      reader.refuse("alpha", "a number above 0", std::to_string(alpha));
    }
    set_alpha({alpha, alpha});
    read_seed(reader);
  }
};

class CutMix final : public Mixing {
 public:
  static constexpr std::string_view kClassName = "CutMix";

  explicit CutMix(ConfigReader& reader) : Mixing(reader, "paste") {
    const Range factor = read_range(reader, "factor", {.bounds = {0, 1}, .fallback = 1.0});
    set_alpha({factor.lower + kLeastAlpha, factor.upper + kLeastAlpha});
    read_seed(reader);
  }
};

class Equalization final : public Layer {
 public:
  static constexpr std::string_view kClassName = "Equalization";

  explicit Equalization(ConfigReader& reader)
      : Layer(reader), channels_first_(read_layout(reader)) {
    bins_ = reader.integer("bins", 256, 1);
    if (bins_ > kMostBins) {
      reader.refuse("bins", "at most 4096", std::to_string(bins_), "Choose fewer bins.");
    }
    values_ = read_value_range(reader);
  }

  std::vector<ValueId> call(LayerContext& context, std::span<const ValueId> inputs) const override {
    ValueId image = one_image(context, inputs, channels_first_);
    if (context.training()) {
      const Attributes attributes{
          {"value_low", values_.lower}, {"value_high", values_.upper}, {"bins", bins_}};
      const ValueId histogram = context.emit("image_histogram", {image}, attributes);
      image = context.emit("image_equalize", {image, histogram}, attributes);
    }
    return {give_image(context, image, channels_first_)};
  }

  bool mixes_samples() const override { return true; }

 private:
  static constexpr int64_t kMostBins = 4096;

  bool channels_first_;
  int64_t bins_ = 256;
  Range values_;
};

}  // namespace

std::shared_ptr<const Layer> make_cut_mix(const Config& config) {
  return construct_layer<CutMix>(config);
}
std::shared_ptr<const Layer> make_equalization(const Config& config) {
  return construct_layer<Equalization>(config);
}
std::shared_ptr<const Layer> make_mix_up(const Config& config) {
  return construct_layer<MixUp>(config);
}

}  // namespace plimsoll::layers
