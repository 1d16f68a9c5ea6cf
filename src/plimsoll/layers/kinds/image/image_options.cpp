#include "layers/kinds/image/image_options.h"

#include <algorithm>
#include <cmath>

#include "base/format.h"
#include "layers/kinds/image/spatial.h"

namespace plimsoll::layers {

bool read_layout(ConfigReader& reader) {
  const bool channels_first = reader.channels_first();
  const Config boxes = reader.legacy("bounding_box_format");
  if (!boxes.is_null()) reader.complete("bounding_box_format", boxes);
  return channels_first;
}

Range read_range(ConfigReader& reader, std::string_view key, const RangeRule& rule) {
  const Range& bounds = rule.bounds;
  const Config given = reader.value(key, rule.fallback);
  Config::Array ends;
  if (given.is_number()) {
    const bool around = rule.from == FromNumber::kAround;
    const double most = around ? std::abs(given.as_double()) : given.as_double();
    const double least = around ? std::max(-most, bounds.lower) : 0.0;
    ends = {least, most};
  } else if (given.is_array()) {
    ends = given.as_array();
  }
  const bool numbers = ends.size() == 2 && ends[0].is_number() && ends[1].is_number();
  if (numbers && ends[0].as_double() > ends[1].as_double()) std::swap(ends[0], ends[1]);
  if (!numbers || !(ends[0].as_double() >= bounds.lower && ends[1].as_double() <= bounds.upper)) {
    reader.refuse(key, fmt::format("a number or two from {} to {}", bounds.lower, bounds.upper),
                  given.is_null() ? "none" : given.to_json());
  }
  if (!rule.as_given) reader.complete(key, ends);
  return {ends[0].as_double(), ends[1].as_double()};
}

Range read_value_range(ConfigReader& reader) {
  const Config given = reader.value("value_range", Config::Array{0, 255});
  constexpr double kWidest = 1e9;
  Config::Array ends = given.is_array() ? given.as_array() : Config::Array{};
  const bool numbers = ends.size() == 2 && ends[0].is_number() && ends[1].is_number();
  if (numbers && ends[0].as_double() > ends[1].as_double()) std::swap(ends[0], ends[1]);
  if (!numbers || !(ends[0].as_double() >= -kWidest && ends[1].as_double() <= kWidest) ||
      ends[0].as_double() == ends[1].as_double()) {
    reader.refuse("value_range", "two numbers that are not equal", given.to_json());
  }
  return {ends[0].as_double(), ends[1].as_double()};
}

void read_seed(ConfigReader& reader) {
  const Config seed = reader.value("seed", Config());
  if (!seed.is_null() && !seed.is_int()) {
    reader.refuse("seed", "an integer or null", seed.to_json());
  }
}

ValueId one_image(LayerContext& context, std::span<const ValueId> inputs, bool channels_first) {
  if (inputs.size() != 1) context.refuse("one input", std::to_string(inputs.size()), "");
  const ValueType type = context.type(inputs[0]);
  if (type.shape.rank() != 4) {
    context.refuse("rank 4", to_string(type.shape),
                   "Add a Reshape before it, or check the model's input shape.");
  }
  ValueId x = inputs[0];
  if (!is_floating(type.dtype)) x = context.emit("cast", {x}, {{"dtype", "float32"}});
  return to_image(context, x, channels_first);
}

ValueId give_image(LayerContext& context, ValueId image, bool channels_first) {
  return from_image(context, image, 2, channels_first);
}

std::vector<int64_t> middle_of(const Shape& image, const std::vector<int64_t>& size) {
  const int64_t height = image[1].count;
  const int64_t width = image[2].count;
  // As Keras rounds them: products as float32.
  const auto share = [](int64_t a, int64_t b, int64_t c) {
    return static_cast<int64_t>(static_cast<float>(a * b) / static_cast<float>(c));
  };
  const int64_t rows = std::clamp<int64_t>(share(width, size[0], size[1]), 1, height);
  const int64_t columns = std::clamp<int64_t>(share(height, size[1], size[0]), 1, width);
  const int64_t top = (height - rows) / 2;
  const int64_t left = (width - columns) / 2;
  return {top, height - rows - top, left, width - columns - left};
}

}  // namespace plimsoll::layers
