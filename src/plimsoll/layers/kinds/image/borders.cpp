#include "layers/kinds/image/borders.h"

#include "graph/image_rows.h"
#include "layers/kinds/image/spatial.h"

namespace plimsoll::layers {
namespace {

// Two numbers of 0 or more; empty where they are not that.
std::vector<int64_t> two_ends(const Config& given) {
  const bool single = given.is_array() && given.as_array().size() == 1;
  const Config one = single ? Config(given.as_array()[0]) : given;
  const Config::Array ends = one.is_array() ? one.as_array() : Config::Array{one, one};
  std::vector<int64_t> result;
  for (const Config& end : ends) {
    if (!end.is_int() || end.as_int() < 0) return {};
    result.push_back(end.as_int());
  }
  return result.size() == 2 ? result : std::vector<int64_t>();
}

}  // namespace

std::vector<int64_t> read_borders(ConfigReader& reader, std::string_view key, int spatial,
                                  const Config& fallback) {
  const Config given = reader.value(key, fallback);
  const auto refuse = [&] {
    reader.refuse(key,
                  spatial == 1   ? "n or [before, after]"
                  : spatial == 2 ? "n, [rows, columns] or [[top, bottom], [left, right]]"
                                 : "n, [slabs, rows, columns] or three times [before, after]",
                  given.to_json());
  };
  if (spatial == 1) {
    const std::vector<int64_t> ends = two_ends(given);
    if (ends.empty()) refuse();
    reader.complete(key, Config::Array{ends[0], ends[1]});
    return {ends[0], ends[1], 0, 0};
  }
  const auto count = static_cast<size_t>(spatial);
  const Config::Array sides = given.is_array() ? given.as_array() : Config::Array(count, given);
  std::vector<int64_t> borders;
  for (const Config& side : sides) {
    const std::vector<int64_t> ends = two_ends(side);
    if (ends.empty()) refuse();
    borders.insert(borders.end(), ends.begin(), ends.end());
  }
  if (borders.size() != 2 * count) refuse();
  Config::Array all;
  for (size_t i = 0; i < count; ++i) {
    all.emplace_back(Config::Array{borders[2 * i], borders[2 * i + 1]});
  }
  reader.complete(key, all);
  return borders;
}

ValueId add_borders(LayerContext& context, std::string_view op, std::string_view key, ValueId image,
                    const std::vector<int64_t>& borders) {
  const auto add = [&](ValueId to, const std::vector<int64_t>& of) {
    return context.emit(op, {to}, {{std::string(key), of}});
  };
  const Shape shape = context.type(image).shape;
  if (shape.rank() == graph::kImageRank) return add(image, borders);
  // Slabs and rows, then columns.
  image = volume_as_image(context, image, Joined::kWidthAndChannels);
  image = add(image, {borders[0], borders[1], borders[2], borders[3]});
  const Shape tall = context.type(image).shape;
  const int64_t depth = tall[1].count;
  const int64_t height = tall[2].count;
  image = with_dims(context, image, {depth * height, shape[3].count, shape[4].count});
  image = add(image, {0, 0, borders[4], borders[5]});
  const int64_t width = context.type(image).shape[2].count;
  return with_dims(context, image, {depth, height, width, shape[4].count});
}

}  // namespace plimsoll::layers
