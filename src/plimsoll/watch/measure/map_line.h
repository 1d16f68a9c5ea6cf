#pragma once

// One line of /proc/PID/maps, or the first line of a mapping in /proc/PID/smaps.

#include <cstdint>
#include <string_view>

namespace plimsoll::watch {

struct MapLine {
  uint64_t begin = 0;  // addresses, [begin, end)
  uint64_t end = 0;
  std::string_view permissions;  // "rw-p"
  std::string_view name;         // path, "[heap]", or "" for anonymous memory

  int64_t extent() const { return static_cast<int64_t>(end - begin); }
};

// False when the line is none; `map` then holds anything.
bool parse_map_line(std::string_view line, MapLine& map);

}  // namespace plimsoll::watch
