// Resizing and CenterCrop: images of one size, in training and afterwards alike.

#include <algorithm>

#include "layers/kinds/all_layers.h"
#include "layers/kinds/image/image_options.h"

namespace plimsoll::layers {
namespace {

constexpr int64_t kMostRows = 1 << 20;

std::vector<int64_t> read_height_and_width(ConfigReader& reader) {
  std::vector<int64_t> size;
  for (const char* key : {"height", "width"}) {
    size.push_back(reader.integer(key, 1));
    if (size.back() > kMostRows) {
      reader.refuse(key, "at most 1048576", std::to_string(size.back()));
    }
  }
  return size;
}

bool has_borders(const std::vector<int64_t>& borders) {
  return std::ranges::any_of(borders, [](int64_t border) { return border > 0; });
}

ValueId crop(LayerContext& context, ValueId image, const std::vector<int64_t>& borders) {
  if (!has_borders(borders)) return image;
  return context.emit("crop2d", {image}, {{"cropping", borders}});
}

ValueId resize(LayerContext& context, ValueId image, const std::vector<int64_t>& size,
               const std::string& interpolation) {
  const Shape shape = context.type(image).shape;
  if (shape[1].count == size[0] && shape[2].count == size[1]) return image;
  return context.emit("resize2d", {image}, {{"size", size}, {"interpolation", interpolation}});
}

class Resizing final : public Layer {
 public:
  static constexpr std::string_view kClassName = "Resizing";

  explicit Resizing(ConfigReader& reader) : Layer(reader) {
    channels_first_ = read_layout(reader);
    size_ = read_height_and_width(reader);
    const Config given = reader.value("interpolation", "bilinear");
    for (const char* word : {"bicubic", "area", "lanczos3", "lanczos5"}) {
      if (given == Config(word)) {
        reader.refuse("interpolation", "\"nearest\" or \"bilinear\"", given.to_json(),
                      "Use bilinear.");
      }
    }
    interpolation_ = reader.choice("interpolation", "bilinear", {"nearest", "bilinear"});
    crops_ = reader.flag("crop_to_aspect_ratio", false);
    pads_ = reader.flag("pad_to_aspect_ratio", false);
    if (crops_ && pads_) {
      reader.refuse("pad_to_aspect_ratio", "false where crop_to_aspect_ratio is true", "true");
    }
    reader.choice("fill_mode", "constant", {"constant"});
    fill_value_ = reader.number("fill_value", 0.0);
    if (reader.flag("antialias", false)) {
      reader.refuse("antialias", "false", "true", "Resize the data before training.");
    }
  }

  std::vector<ValueId> call(LayerContext& context, std::span<const ValueId> inputs) const override {
    const DType dtype = inputs.size() == 1 ? context.type(inputs[0]).dtype : DType::kFloat32;
    const bool whole_numbers = !is_floating(dtype);
    if (whole_numbers && dtype != DType::kUInt8) {
      context.refuse("images of floating point or uint8", std::string(to_string(dtype)),
                     "Put a Rescaling layer before it.");
    }
    ValueId image = one_image(context, inputs, channels_first_);
    if (crops_) image = crop(context, image, middle_of(context.type(image).shape, size_));
    if (pads_) image = pad(context, image);
    image = resize(context, image, size_, interpolation_);
    // Bytes stay bytes, as in Keras.
    if (whole_numbers) {
      image = context.emit("unary", {image}, {{"kind", "round"}});
      image = context.emit("clip_range", {image}, {{"value_low", 0.0}, {"value_high", 255.0}});
      image = context.emit("cast", {image}, {{"dtype", std::string(to_string(dtype))}});
    }
    return {give_image(context, image, channels_first_)};
  }

 private:
  ValueId pad(LayerContext& context, ValueId image) const {
    const Shape shape = context.type(image).shape;
    const auto missing = [](int64_t have, int64_t other, int64_t mine, int64_t others) {
      const auto wanted =
          static_cast<int64_t>(static_cast<float>(other * mine) / static_cast<float>(others));
      return (std::max(have, wanted) - have) / 2;
    };
    const int64_t rows = missing(shape[1].count, shape[2].count, size_[0], size_[1]);
    const int64_t columns = missing(shape[2].count, shape[1].count, size_[1], size_[0]);
    const std::vector<int64_t> borders = {rows, rows, columns, columns};
    if (!has_borders(borders)) return image;
    if (fill_value_ == 0) return context.emit("zero_pad2d", {image}, {{"padding", borders}});
    if (rows > 0) image = surround(context, image, 1, rows);
    return columns > 0 ? surround(context, image, 2, columns) : image;
  }

  // So many rows or columns of the fill value before and after.
  ValueId surround(LayerContext& context, ValueId image, int axis, int64_t count) const {
    const ValueType type = context.type(image);
    std::vector<int64_t> dims;
    for (int d = 1; d < 4; ++d) dims.push_back(d == axis ? count : type.shape[d].count);
    ValueId edge = context.emit("constant", {},
                                {{"shape", std::vector<int64_t>{}},
                                 {"value", fill_value_},
                                 {"dtype", std::string(to_string(type.dtype))}});
    edge = context.emit(
        "broadcast", {edge},
        {{"shape", dims}, {"batched", true}, {"rows_per_sample", type.shape[0].count}});
    return context.emit("concat", {edge, image, edge}, {{"axis", axis}});
  }

  bool channels_first_ = false;
  std::vector<int64_t> size_;
  std::string interpolation_;
  bool crops_ = false;
  bool pads_ = false;
  double fill_value_ = 0;
};

// The middle of an image; one that is too small is resized from the part of its aspect ratio.
class CenterCrop final : public Layer {
 public:
  static constexpr std::string_view kClassName = "CenterCrop";

  explicit CenterCrop(ConfigReader& reader) : Layer(reader) {
    channels_first_ = read_layout(reader);
    size_ = read_height_and_width(reader);
  }

  std::vector<ValueId> call(LayerContext& context, std::span<const ValueId> inputs) const override {
    ValueId image = one_image(context, inputs, channels_first_);
    const Shape shape = context.type(image).shape;
    const int64_t rows = shape[1].count - size_[0];
    const int64_t columns = shape[2].count - size_[1];
    if (rows >= 0 && columns >= 0) {
      const int64_t top = rows / 2;
      const int64_t left = columns / 2;
      image = crop(context, image, {top, rows - top, left, columns - left});
    } else {
      image = crop(context, image, middle_of(shape, size_));
      image = resize(context, image, size_, "bilinear");
    }
    return {give_image(context, image, channels_first_)};
  }

 private:
  bool channels_first_ = false;
  std::vector<int64_t> size_;
};

// In training a part of the image, from a corner that the batch shares; a smaller image gives its
// middle, resized. Afterwards nothing, as in Keras.
class RandomCrop final : public Layer {
 public:
  static constexpr std::string_view kClassName = "RandomCrop";

  explicit RandomCrop(ConfigReader& reader) : Layer(reader) {
    channels_first_ = read_layout(reader);
    size_ = read_height_and_width(reader);
    read_seed(reader);
  }

  std::vector<ValueId> call(LayerContext& context, std::span<const ValueId> inputs) const override {
    ValueId image = one_image(context, inputs, channels_first_);
    if (!context.training()) return {give_image(context, image, channels_first_)};
    const Shape shape = context.type(image).shape;
    if (shape[1].count > size_[0] && shape[2].count > size_[1]) {
      image = context.emit("image_crop", {image}, {{"size", size_}, {"site", context.call_site()}});
      return {give_image(context, image, channels_first_)};
    }
    // From the corner of the middle, as much as there is.
    std::vector<int64_t> borders = middle_of(shape, size_);
    borders[1] = std::max<int64_t>(shape[1].count - borders[0] - size_[0], 0);
    borders[3] = std::max<int64_t>(shape[2].count - borders[2] - size_[1], 0);
    image = crop(context, image, borders);
    return {give_image(context, resize(context, image, size_, "bilinear"), channels_first_)};
  }

 private:
  bool channels_first_ = false;
  std::vector<int64_t> size_;
};

}  // namespace

std::shared_ptr<const Layer> make_resizing(const Config& config) {
  return construct_layer<Resizing>(config);
}
std::shared_ptr<const Layer> make_center_crop(const Config& config) {
  return construct_layer<CenterCrop>(config);
}
std::shared_ptr<const Layer> make_random_crop(const Config& config) {
  return construct_layer<RandomCrop>(config);
}

}  // namespace plimsoll::layers
