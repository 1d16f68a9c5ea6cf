// Layers that change the colors of images: RandomBrightness, RandomContrast and their like, by a
// draw for each image in training, nothing afterwards; AutoContrast's stretched range and equalized
// tiles always.

#include <cmath>

#include "layers/kinds/all_layers.h"
#include "layers/kinds/image/image_options.h"

namespace plimsoll::layers {
namespace {

constexpr double kMostValue = 255;

// Layers of one input, which is left alone outside of training.
class Recoloring : public Layer {
 public:
  std::vector<ValueId> call(LayerContext& context, std::span<const ValueId> inputs) const override {
    ValueId image = one_image(context, inputs, channels_first_);
    if (context.training()) image = change(context, image);
    return {give_image(context, image, channels_first_)};
  }

 protected:
  explicit Recoloring(ConfigReader& reader) : Layer(reader), channels_first_(read_layout(reader)) {}

  bool channels_first() const { return channels_first_; }
  virtual ValueId change(LayerContext& context, ValueId image) const = 0;

 private:
  bool channels_first_;
};

// What image_color asks for.
struct ColorChange {
  std::string_view kind;
  Range draws{};
  Range second{};
  Range values{0, kMostValue};

  ValueId emit(LayerContext& context, ValueId image) const {
    return context.emit("image_color", {image},
                        {{"kind", std::string(kind)},
                         {"lower", draws.lower},
                         {"upper", draws.upper},
                         {"second_lower", second.lower},
                         {"second_upper", second.upper},
                         {"value_low", values.lower},
                         {"value_high", values.upper},
                         {"site", context.call_site()}});
  }
};

ValueId clip(LayerContext& context, ValueId image, const Range& values) {
  return context.emit("clip_range", {image},
                      {{"value_low", values.lower}, {"value_high", values.upper}});
}

ValueId change_brightness(LayerContext& context, ValueId image, const Range& factor,
                          const Range& values) {
  const ColorChange brighter{.kind = "brightness", .draws = factor, .values = values};
  return clip(context, brighter.emit(context, image), values);
}

ValueId change_contrast(LayerContext& context, ValueId image, const Range& factor,
                        const Range& values) {
  image = context.emit(
      "image_contrast", {image},
      {{"lower", 1 - factor.lower}, {"upper", 1 + factor.upper}, {"site", context.call_site()}});
  return clip(context, image, values);
}

class RandomBrightness final : public Recoloring {
 public:
  static constexpr std::string_view kClassName = "RandomBrightness";

  explicit RandomBrightness(ConfigReader& reader)
      : Recoloring(reader),
        factor_(read_range(reader, "factor", {.bounds = {-1, 1}})),
        values_(read_value_range(reader)) {
    read_seed(reader);
  }

  std::vector<ValueId> call(LayerContext& context, std::span<const ValueId> inputs) const override {
    // Keras adds in the type of the image: what is drawn would lose its fraction and its sign.
    if (inputs.size() == 1 && !is_floating(context.type(inputs[0]).dtype)) {
      context.refuse("images of floating point",
                     std::string(to_string(context.type(inputs[0]).dtype)),
                     "Put a Rescaling layer before it.");
    }
    return Recoloring::call(context, inputs);
  }

 private:
  ValueId change(LayerContext& context, ValueId image) const override {
    return change_brightness(context, image, factor_, values_);
  }

  Range factor_;
  Range values_;
};

class RandomContrast final : public Recoloring {
 public:
  static constexpr std::string_view kClassName = "RandomContrast";

  explicit RandomContrast(ConfigReader& reader)
      : Recoloring(reader),
        factor_(read_range(reader, "factor", {.bounds = {0, 1}})),
        values_(read_value_range(reader)) {
    read_seed(reader);
  }

 private:
  ValueId change(LayerContext& context, ValueId image) const override {
    return change_contrast(context, image, factor_, values_);
  }

  Range factor_;
  Range values_;
};

// Layers with a factor, a range of values and a seed, which image_color computes.
class ByFactor : public Recoloring {
 protected:
  ByFactor(ConfigReader& reader, std::string_view kind, const RangeRule& rule)
      : Recoloring(reader), change_{.kind = kind} {
    change_.draws = read_range(reader, "factor", rule);
    change_.values = read_value_range(reader);
    read_seed(reader);
  }

 private:
  ValueId change(LayerContext& context, ValueId image) const override {
    return change_.emit(context, image);
  }

  ColorChange change_;
};

class RandomSaturation final : public ByFactor {
 public:
  static constexpr std::string_view kClassName = "RandomSaturation";
  explicit RandomSaturation(ConfigReader& reader)
      : ByFactor(reader, "saturation", {.bounds = {-1, 1}}) {}
};

class RandomHue final : public ByFactor {
 public:
  static constexpr std::string_view kClassName = "RandomHue";
  explicit RandomHue(ConfigReader& reader) : ByFactor(reader, "hue", {.bounds = {0, 1}}) {}
};

class RandomColorDegeneration final : public ByFactor {
 public:
  static constexpr std::string_view kClassName = "RandomColorDegeneration";
  explicit RandomColorDegeneration(ConfigReader& reader)
      : ByFactor(reader, "degenerate", {.bounds = {-1, 1}}) {}
};

class RandomInvert final : public ByFactor {
 public:
  static constexpr std::string_view kClassName = "RandomInvert";
  explicit RandomInvert(ConfigReader& reader)
      : ByFactor(reader, "invert", {.bounds = {0, 1}, .fallback = 1.0}) {}
};

class RandomPosterization final : public ByFactor {
 public:
  static constexpr std::string_view kClassName = "RandomPosterization";
  explicit RandomPosterization(ConfigReader& reader)
      : ByFactor(reader, "posterize", {.bounds = {1, 8}}) {}
};

class RandomGrayscale final : public Recoloring {
 public:
  static constexpr std::string_view kClassName = "RandomGrayscale";

  explicit RandomGrayscale(ConfigReader& reader) : Recoloring(reader) {
    factor_ = reader.number("factor", 0.5);
    if (!(factor_ >= 0 && factor_ <= 1)) {
      reader.refuse("factor", "0 to 1", std::to_string(factor_));
    }
    reader.legacy("seed");
  }

 private:
  ValueId change(LayerContext& context, ValueId image) const override {
    // One channel is gray.
    if (context.type(image).shape[3] == Dim::constant(1)) return image;
    return ColorChange{.kind = "grayscale", .draws = {0, factor_}}.emit(context, image);
  }

  double factor_ = 0;
};

class Solarization final : public Recoloring {
 public:
  static constexpr std::string_view kClassName = "Solarization";

  explicit Solarization(ConfigReader& reader) : Recoloring(reader), change_{.kind = "solarize"} {
    change_.values = read_value_range(reader);
    const RangeRule rule{.bounds = {0, 1}, .from = FromNumber::kUpTo, .fallback = 0.0};
    change_.draws = read_range(reader, "addition_factor", rule);
    change_.second = read_range(reader, "threshold_factor", rule);
    // As Keras has it: the upper bounds alone are shares of 255.
    change_.draws.upper *= kMostValue;
    change_.second.upper *= kMostValue;
    read_seed(reader);
  }

 private:
  ValueId change(LayerContext& context, ValueId image) const override {
    return change_.emit(context, image);
  }

  ColorChange change_;
};

// Keras's layers inside of it are channels last, whatever it is told itself.
class RandomColorJitter final : public Recoloring {
 public:
  static constexpr std::string_view kClassName = "RandomColorJitter";

  explicit RandomColorJitter(ConfigReader& reader) : Recoloring(reader) {
    if (channels_first()) {
      reader.refuse("data_format", "\"channels_last\"", "\"channels_first\"",
                    "Put a Permute layer before it, and one after it.");
    }
    values_ = read_value_range(reader);
    read_part(reader, "brightness_factor", {-1, 1}, brightness_);
    read_part(reader, "contrast_factor", {0, 1}, contrast_);
    read_part(reader, "saturation_factor", {-1, 1}, saturation_);
    read_part(reader, "hue_factor", {0, 1}, hue_);
    read_seed(reader);
  }

 private:
  static void read_part(ConfigReader& reader, std::string_view key, const Range& bounds,
                        std::optional<Range>& part) {
    if (reader.value(key, Config()).is_null()) return;
    part = read_range(reader, key, {.bounds = bounds, .as_given = true});
  }

  ValueId change(LayerContext& context, ValueId image) const override {
    if (brightness_) image = change_brightness(context, image, *brightness_, values_);
    if (contrast_) image = change_contrast(context, image, *contrast_, values_);
    if (saturation_) {
      image = ColorChange{.kind = "saturation", .draws = *saturation_, .values = values_}.emit(
          context, image);
    }
    if (hue_) {
      image = ColorChange{.kind = "hue", .draws = *hue_, .values = values_}.emit(context, image);
    }
    return image;
  }

  Range values_;
  std::optional<Range> brightness_;
  std::optional<Range> contrast_;
  std::optional<Range> saturation_;
  std::optional<Range> hue_;
};

class AutoContrast final : public Layer {
 public:
  static constexpr std::string_view kClassName = "AutoContrast";

  explicit AutoContrast(ConfigReader& reader) : Layer(reader) {
    if (read_layout(reader)) {
      reader.refuse("data_format", "\"channels_last\"", "\"channels_first\"",
                    "Put a Permute layer before it, and one after it.");
    }
    values_ = read_value_range(reader);
  }

  std::vector<ValueId> call(LayerContext& context, std::span<const ValueId> inputs) const override {
    const ValueId image = one_image(context, inputs, false);
    return {context.emit("auto_contrast", {image},
                         {{"value_low", values_.lower}, {"value_high", values_.upper}})};
  }

 private:
  Range values_;
};

class TileEqualization final : public Layer {
 public:
  static constexpr std::string_view kClassName = "ContrastLimitedAdaptiveHistogramEqualization";

  explicit TileEqualization(ConfigReader& reader) : Layer(reader) {
    values_ = read_value_range(reader);
    clip_limit_ = reader.number("clip_limit", 4.0);
    tiles_ = reader.sizes("tile_grid_size", {8, 8}, 1);
    channels_first_ = read_layout(reader);
  }

  std::vector<ValueId> call(LayerContext& context, std::span<const ValueId> inputs) const override {
    const ValueId image = one_image(context, inputs, channels_first_);
    const ValueId equalized = context.emit("equalize_tiles", {image},
                                           {{"value_low", values_.lower},
                                            {"value_high", values_.upper},
                                            {"clip_limit", clip_limit_},
                                            {"tiles", tiles_}});
    return {give_image(context, equalized, channels_first_)};
  }

 private:
  Range values_;
  double clip_limit_ = 4;
  std::vector<int64_t> tiles_;
  bool channels_first_ = false;
};

class RandomSharpness final : public Recoloring {
 public:
  static constexpr std::string_view kClassName = "RandomSharpness";

  explicit RandomSharpness(ConfigReader& reader)
      : Recoloring(reader),
        factor_(read_range(reader, "factor", {.bounds = {0, 1}})),
        values_(read_value_range(reader)) {
    read_seed(reader);
  }

 private:
  ValueId change(LayerContext& context, ValueId image) const override {
    return context.emit("image_filter", {image},
                        {{"kind", "sharpness"},
                         {"lower", factor_.lower},
                         {"upper", factor_.upper},
                         {"second_lower", 0.0},
                         {"second_upper", 0.0},
                         {"size", std::vector<int64_t>{3, 3}},
                         {"value_low", values_.lower},
                         {"value_high", values_.upper},
                         {"site", context.call_site()}});
  }

  Range factor_;
  Range values_;
};

class RandomGaussianBlur final : public Recoloring {
 public:
  static constexpr std::string_view kClassName = "RandomGaussianBlur";

  explicit RandomGaussianBlur(ConfigReader& reader)
      : Recoloring(reader),
        factor_(read_range(reader, "factor", {.bounds = {0, 1}, .fallback = 1.0})),
        size_(reader.sizes("kernel_size", {3, 3}, 1)),
        sigma_(read_range(reader, "sigma", {.bounds = {0, 1}, .fallback = 1.0})),
        values_(read_value_range(reader)) {
    for (const int64_t size : size_) {
      if (size % 2 == 0 || size > kMostSize) {
        reader.refuse("kernel_size", "odd numbers of at most 63", std::to_string(size));
      }
    }
    read_seed(reader);
  }

 private:
  static constexpr int64_t kMostSize = 63;

  ValueId change(LayerContext& context, ValueId image) const override {
    return context.emit("image_filter", {image},
                        {{"kind", "blur"},
                         {"lower", factor_.lower},
                         {"upper", factor_.upper},
                         {"second_lower", sigma_.lower},
                         {"second_upper", sigma_.upper},
                         {"size", size_},
                         {"value_low", values_.lower},
                         {"value_high", values_.upper},
                         {"site", context.call_site()}});
  }

  Range factor_;
  std::vector<int64_t> size_;
  Range sigma_;
  Range values_;
};

class RandomErasing final : public Recoloring {
 public:
  static constexpr std::string_view kClassName = "RandomErasing";

  explicit RandomErasing(ConfigReader& reader)
      : Recoloring(reader),
        factor_(read_range(reader, "factor", {.bounds = {0, 1}, .fallback = 1.0})),
        scale_(read_range(reader, "scale",
                          {.bounds = {0, 1}, .fallback = Config::Array{0.02, 0.33}})) {
    read_fill(reader);
    values_ = read_value_range(reader);
    read_seed(reader);
  }

 private:
  void read_fill(ConfigReader& reader) {
    const Config given = reader.value("fill_value", Config());
    if (given.is_null()) return;
    const Config::Array list =
        given.is_array() ? given.as_array() : Config::Array{given, given, given};
    for (const Config& number : list) {
      if (number.is_number()) fill_.push_back(number.as_double());
    }
    if (list.size() != 3 || fill_.size() != 3) {
      reader.refuse("fill_value", "null, a number, or three", given.to_json());
    }
    three_ = given.is_array();
    if (three_ && channels_first()) {
      reader.refuse("fill_value", "null or one number where channels come first", given.to_json());
    }
  }

  ValueId change(LayerContext& context, ValueId image) const override {
    const Shape shape = context.type(image).shape;
    if (three_ && shape[3] != Dim::constant(3)) {
      context.refuse("three channels, as there are three fill values", to_string(shape),
                     "Give one fill_value.");
    }
    const bool filled = !fill_.empty();
    return context.emit("image_erase", {image},
                        {{"lower", factor_.lower},
                         {"upper", factor_.upper},
                         {"scale_lower", scale_.lower},
                         {"scale_upper", scale_.upper},
                         {"filled", filled},
                         {"fill_0", filled ? fill_[0] : 0.0},
                         {"fill_1", filled ? fill_[1] : 0.0},
                         {"fill_2", filled ? fill_[2] : 0.0},
                         {"value_low", values_.lower},
                         {"value_high", values_.upper},
                         {"site", context.call_site()}});
  }

  Range factor_;
  Range scale_;
  std::vector<double> fill_;
  bool three_ = false;
  Range values_;
};

}  // namespace

std::shared_ptr<const Layer> make_auto_contrast(const Config& config) {
  return construct_layer<AutoContrast>(config);
}
std::shared_ptr<const Layer> make_contrast_limited_adaptive_histogram_equalization(
    const Config& config) {
  return construct_layer<TileEqualization>(config);
}
std::shared_ptr<const Layer> make_random_brightness(const Config& config) {
  return construct_layer<RandomBrightness>(config);
}
std::shared_ptr<const Layer> make_random_color_degeneration(const Config& config) {
  return construct_layer<RandomColorDegeneration>(config);
}
std::shared_ptr<const Layer> make_random_color_jitter(const Config& config) {
  return construct_layer<RandomColorJitter>(config);
}
std::shared_ptr<const Layer> make_random_contrast(const Config& config) {
  return construct_layer<RandomContrast>(config);
}
std::shared_ptr<const Layer> make_random_erasing(const Config& config) {
  return construct_layer<RandomErasing>(config);
}
std::shared_ptr<const Layer> make_random_gaussian_blur(const Config& config) {
  return construct_layer<RandomGaussianBlur>(config);
}
std::shared_ptr<const Layer> make_random_grayscale(const Config& config) {
  return construct_layer<RandomGrayscale>(config);
}
std::shared_ptr<const Layer> make_random_hue(const Config& config) {
  return construct_layer<RandomHue>(config);
}
std::shared_ptr<const Layer> make_random_invert(const Config& config) {
  return construct_layer<RandomInvert>(config);
}
std::shared_ptr<const Layer> make_random_posterization(const Config& config) {
  return construct_layer<RandomPosterization>(config);
}
std::shared_ptr<const Layer> make_random_saturation(const Config& config) {
  return construct_layer<RandomSaturation>(config);
}
std::shared_ptr<const Layer> make_random_sharpness(const Config& config) {
  return construct_layer<RandomSharpness>(config);
}
std::shared_ptr<const Layer> make_solarization(const Config& config) {
  return construct_layer<Solarization>(config);
}

}  // namespace plimsoll::layers
