// Rescaling: x · scale + offset, with one number for all or one a channel; integers become float32
// first.

#include <algorithm>

#include "base/format.h"
#include "layers/kinds/all_layers.h"

namespace plimsoll::layers {
namespace {

class Rescaling final : public Layer {
 public:
  static constexpr std::string_view kClassName = "Rescaling";

  explicit Rescaling(ConfigReader& reader) : Layer(reader) {
    scale_ = read_numbers(reader, "scale", Config());
    offset_ = read_numbers(reader, "offset", 0.0);
  }

  std::vector<ValueId> call(LayerContext& context, std::span<const ValueId> inputs) const override {
    if (inputs.size() != 1) refuse("one input", std::to_string(inputs.size()), "");
    ValueId x = inputs[0];
    if (!is_floating(context.type(x).dtype)) {
      x = context.emit("cast", {x}, {{"dtype", "float32"}});
    }
    const size_t count = std::max(scale_.size(), offset_.size());
    if (count == 1) return {rescale(context, x, 0)};
    const Shape shape = context.type(x).shape;
    const int64_t channels = shape.rank() < 2 ? 1 : shape[shape.rank() - 1].count;
    expect_channels(scale_, channels);
    expect_channels(offset_, channels);
    // One channel at a time: there are few, and no constant has to be kept for them.
    std::vector<ValueId> parts;
    for (size_t c = 0; c < count; ++c) {
      const ValueId channel = context.emit(
          "slice", {x}, {{"axis", -1}, {"begin", static_cast<int64_t>(c)}, {"count", 1}});
      parts.push_back(rescale(context, channel, c));
    }
    return {context.emit("concat", parts, {{"axis", -1}})};
  }

 private:
  static std::vector<double> read_numbers(ConfigReader& reader, std::string_view key,
                                          const Config& fallback) {
    constexpr size_t kMostChannels = 64;
    const Config given = reader.value(key, fallback);
    const std::string expected = "a number, or a list of up to 64 numbers, one a channel";
    const Config::Array list = given.is_array() ? given.as_array() : Config::Array{given};
    std::vector<double> numbers;
    for (const Config& number : list) {
      if (!number.is_number()) reader.refuse(key, expected, given.to_json());
      numbers.push_back(number.as_double());
    }
    if (numbers.empty() || numbers.size() > kMostChannels) {
      reader.refuse(key, expected, given.to_json());
    }
    return numbers;
  }

  void expect_channels(const std::vector<double>& numbers, int64_t channels) const {
    if (numbers.size() == 1 || static_cast<int64_t>(numbers.size()) == channels) return;
    refuse(fmt::format("one number, or one for each of {} channels", channels),
           fmt::format("{} numbers", numbers.size()), "Check scale and offset.");
  }

  ValueId rescale(LayerContext& context, ValueId x, size_t channel) const {
    const double scale = scale_[scale_.size() == 1 ? 0 : channel];
    const double offset = offset_[offset_.size() == 1 ? 0 : channel];
    return context.emit("scale_shift", {x}, {{"scale", scale}, {"offset", offset}});
  }

  std::vector<double> scale_;
  std::vector<double> offset_;
};

}  // namespace

std::shared_ptr<const Layer> make_rescaling(const Config& config) {
  return construct_layer<Rescaling>(config);
}

}  // namespace plimsoll::layers
