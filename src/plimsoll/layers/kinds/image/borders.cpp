#include "layers/kinds/image/borders.h"

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
                  spatial == 1 ? "n or [before, after]"
                               : "n, [rows, columns] or [[top, bottom], [left, right]]",
                  given.to_json());
  };
  if (spatial == 1) {
    const std::vector<int64_t> ends = two_ends(given);
    if (ends.empty()) refuse();
    reader.complete(key, Config::Array{ends[0], ends[1]});
    return {ends[0], ends[1], 0, 0};
  }
  const Config::Array sides = given.is_array() ? given.as_array() : Config::Array{given, given};
  std::vector<int64_t> borders;
  for (const Config& side : sides) {
    const std::vector<int64_t> ends = two_ends(side);
    if (ends.empty()) refuse();
    borders.insert(borders.end(), ends.begin(), ends.end());
  }
  if (borders.size() != 4) refuse();
  reader.complete(key, Config::Array{Config::Array{borders[0], borders[1]},
                                     Config::Array{borders[2], borders[3]}});
  return borders;
}

}  // namespace plimsoll::layers
