#pragma once

// What Keras's layers for preparing images have in common: their options, and images of any kind as
// the one layout in which everything is computed.

#include <string>
#include <vector>

#include "layers/model/layer.h"

namespace plimsoll::layers {

struct Range {
  double lower = 0;
  double upper = 0;
};

// How a single number f is read.
enum class FromNumber : uint8_t {
  kAround,  // from −|f| to |f|, within the bounds
  kUpTo,    // from 0 to f
};

// "data_format" and the format of boxes, which images have none of; whether channels come first.
bool read_layout(ConfigReader& reader);
struct RangeRule {
  Range bounds{};
  FromNumber from = FromNumber::kAround;
  bool as_given = false;  // printed as it was given, else as the pair
  Config fallback{};      // null: there must be one
};
// A number or two, in bounds. Two may come in any order.
Range read_range(ConfigReader& reader, std::string_view key, const RangeRule& rule);
// Two numbers, the lower one first.
Range read_value_range(ConfigReader& reader);
// An integer or null; it is read and printed, draws are told apart by call sites.
void read_seed(ConfigReader& reader);

// The one input as an image (B, height, width, channels) of floating point.
ValueId one_image(LayerContext& context, std::span<const ValueId> inputs, bool channels_first);
// The way back.
ValueId give_image(LayerContext& context, ValueId image, bool channels_first);
// Rows and columns as far as an image of those has the aspect ratio of `size`: the part of an image
// in its middle, {top, bottom, left, right} around it.
std::vector<int64_t> middle_of(const Shape& image, const std::vector<int64_t>& size);

}  // namespace plimsoll::layers
