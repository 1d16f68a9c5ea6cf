#include "watch/measure/map_line.h"

#include <charconv>

namespace plimsoll::watch {

// "7f00-7f10 rw-p 00000000 00:00 0    [heap]": hexadecimal addresses, permissions, name.
bool parse_map_line(std::string_view line, MapLine& map) {
  constexpr size_t kNone = std::string_view::npos;
  const size_t dash = line.find('-');
  const size_t blank = line.find(' ');
  if (dash == kNone || blank == kNone || dash > blank) return false;
  const auto first = std::from_chars(line.data(), line.data() + dash, map.begin, 16);
  const auto second = std::from_chars(line.data() + dash + 1, line.data() + blank, map.end, 16);
  if (first.ec != std::errc() || first.ptr != line.data() + dash) return false;
  if (second.ec != std::errc() || second.ptr != line.data() + blank) return false;
  if (map.end < map.begin) return false;
  map.permissions = line.substr(blank + 1, 4);
  // Four more fields stand before the name.
  size_t at = blank;
  for (int field = 0; field < 4 && at != kNone; ++field) {
    at = line.find_first_not_of(' ', at);
    if (at != kNone) at = line.find(' ', at);
  }
  if (at != kNone) at = line.find_first_not_of(' ', at);
  map.name = at == kNone ? std::string_view() : line.substr(at);
  return true;
}

}  // namespace plimsoll::watch
