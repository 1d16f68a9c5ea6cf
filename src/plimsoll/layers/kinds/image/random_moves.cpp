// RandomFlip, RandomRotation, RandomZoom, RandomTranslation, RandomShear, RandomPerspective: what
// training does to each image by a draw of its own, and evaluation leaves alone.

#include "layers/kinds/all_layers.h"
#include "layers/kinds/image/image_options.h"

namespace plimsoll::layers {
namespace {

class RandomFlip final : public Layer {
 public:
  static constexpr std::string_view kClassName = "RandomFlip";

  explicit RandomFlip(ConfigReader& reader) : Layer(reader) {
    channels_first_ = read_layout(reader);
    read_seed(reader);
    const std::string mode = reader.choice("mode", "horizontal_and_vertical",
                                           {"horizontal", "vertical", "horizontal_and_vertical"});
    horizontal_ = mode != "vertical";
    vertical_ = mode != "horizontal";
  }

  std::vector<ValueId> call(LayerContext& context, std::span<const ValueId> inputs) const override {
    ValueId image = one_image(context, inputs, channels_first_);
    if (context.training()) {
      image = context.emit(
          "image_flip", {image},
          {{"horizontal", horizontal_}, {"vertical", vertical_}, {"site", context.call_site()}});
    }
    return {give_image(context, image, channels_first_)};
  }

 private:
  bool channels_first_ = false;
  bool horizontal_ = true;
  bool vertical_ = true;
};

// What the layers that image_warp computes have in common.
class Warping : public Layer {
 public:
  std::vector<ValueId> call(LayerContext& context, std::span<const ValueId> inputs) const override {
    ValueId image = one_image(context, inputs, channels_first_);
    if (context.training()) {
      image = context.emit("image_warp", {image},
                           {{"motion", motion_},
                            {"height_lower", height_.lower},
                            {"height_upper", height_.upper},
                            {"width_lower", width_.lower},
                            {"width_upper", width_.upper},
                            {"joined", joined_},
                            {"fill_mode", fill_mode_},
                            {"fill_value", fill_value_},
                            {"interpolation", interpolation_},
                            {"site", context.call_site()}});
    }
    return {give_image(context, image, channels_first_)};
  }

 protected:
  Warping(ConfigReader& reader, std::string motion)
      : Layer(reader), motion_(std::move(motion)), channels_first_(read_layout(reader)) {}

  void read_fill_mode(ConfigReader& reader) {
    fill_mode_ = reader.choice("fill_mode", "reflect", {"reflect", "wrap", "constant", "nearest"});
  }
  void read_fill_value(ConfigReader& reader) {
    fill_value_ = reader.number("fill_value", 0.0);
    if (!(fill_value_ >= -1e30 && fill_value_ <= 1e30)) {
      reader.refuse("fill_value", "a finite number", std::to_string(fill_value_));
    }
  }
  void read_interpolation(ConfigReader& reader) {
    interpolation_ = reader.choice("interpolation", "bilinear", {"nearest", "bilinear"});
  }
  void fill_outside() { fill_mode_ = "constant"; }
  void set_height(const Range& range) { height_ = range; }
  void set_width(const Range& range) { width_ = range; }
  void join() { joined_ = true; }

 private:
  std::string motion_;
  bool channels_first_;
  Range height_;
  Range width_;
  bool joined_ = false;
  std::string fill_mode_;
  double fill_value_ = 0;
  std::string interpolation_;
};

class RandomRotation final : public Warping {
 public:
  static constexpr std::string_view kClassName = "RandomRotation";

  explicit RandomRotation(ConfigReader& reader) : Warping(reader, "rotation") {
    set_height(read_range(reader, "factor", {.bounds = {-1, 1}}));
    read_fill_mode(reader);
    read_fill_value(reader);
    read_interpolation(reader);
    read_seed(reader);
  }
};

class RandomZoom final : public Warping {
 public:
  static constexpr std::string_view kClassName = "RandomZoom";

  explicit RandomZoom(ConfigReader& reader) : Warping(reader, "zoom") {
    set_height(read_zoom(reader, "height_factor"));
    if (reader.value("width_factor", Config()).is_null()) {
      join();
    } else {
      set_width(read_zoom(reader, "width_factor"));
    }
    read_fill_mode(reader);
    read_interpolation(reader);
    read_seed(reader);
    read_fill_value(reader);
  }

 private:
  static Range read_zoom(ConfigReader& reader, std::string_view key) {
    const Range range = read_range(reader, key, {.bounds = {-1, 1}, .as_given = true});
    // A single number of 1 is one of Keras's too: −1 is a draw that never comes.
    if (range.lower == -1 && reader.value(key, Config()).is_array()) {
      reader.refuse(key, "a number or two above -1 and at most 1",
                    reader.value(key, Config()).to_json());
    }
    return range;
  }
};

class RandomTranslation final : public Warping {
 public:
  static constexpr std::string_view kClassName = "RandomTranslation";

  explicit RandomTranslation(ConfigReader& reader) : Warping(reader, "translation") {
    set_height(read_range(reader, "height_factor", {.bounds = {-1, 1}, .as_given = true}));
    set_width(read_range(reader, "width_factor", {.bounds = {-1, 1}, .as_given = true}));
    read_fill_mode(reader);
    read_interpolation(reader);
    read_seed(reader);
    read_fill_value(reader);
  }
};

class RandomShear final : public Warping {
 public:
  static constexpr std::string_view kClassName = "RandomShear";

  explicit RandomShear(ConfigReader& reader) : Warping(reader, "shear") {
    set_width(read_range(reader, "x_factor", {.bounds = {-1, 1}, .fallback = 0.0}));
    set_height(read_range(reader, "y_factor", {.bounds = {-1, 1}, .fallback = 0.0}));
    read_fill_mode(reader);
    read_interpolation(reader);
    read_seed(reader);
    read_fill_value(reader);
  }
};

class RandomPerspective final : public Warping {
 public:
  static constexpr std::string_view kClassName = "RandomPerspective";

  explicit RandomPerspective(ConfigReader& reader) : Warping(reader, "perspective") {
    // How often an image changes, and by how much its corners do.
    set_height(read_range(reader, "factor", {.bounds = {0, 1}, .fallback = 1.0}));
    const double scale = reader.number("scale", 1.0);
    if (!(scale >= 0 && scale <= 1)) reader.refuse("scale", "0 to 1", std::to_string(scale));
    set_width({-0.5 * scale, 0.5 * scale});
    read_interpolation(reader);
    read_fill_value(reader);
    read_seed(reader);
    fill_outside();
  }
};

}  // namespace

std::shared_ptr<const Layer> make_random_flip(const Config& config) {
  return construct_layer<RandomFlip>(config);
}
std::shared_ptr<const Layer> make_random_perspective(const Config& config) {
  return construct_layer<RandomPerspective>(config);
}
std::shared_ptr<const Layer> make_random_rotation(const Config& config) {
  return construct_layer<RandomRotation>(config);
}
std::shared_ptr<const Layer> make_random_shear(const Config& config) {
  return construct_layer<RandomShear>(config);
}
std::shared_ptr<const Layer> make_random_translation(const Config& config) {
  return construct_layer<RandomTranslation>(config);
}
std::shared_ptr<const Layer> make_random_zoom(const Config& config) {
  return construct_layer<RandomZoom>(config);
}

}  // namespace plimsoll::layers
