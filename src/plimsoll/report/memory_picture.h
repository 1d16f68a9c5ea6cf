#pragma once

// Memory at a plan's peak by layer and kind: a picture and the same as a Markdown table.
//
//   CONV2D     ████████████▒▒▒▒░░   12.5 MiB
//   DENSE      ███▒                  3.1 MiB
//   ─ activations ▒ gradients ░ scratch …
//
// One row a layer, the largest first; beyond kMostRows the rest is one row. Bars are drawn to one
// scale. Letters are capitals, four pixels wide: the table has the names as they are.

#include <string>
#include <vector>

#include "codec/png_writer.h"
#include "plan/search/planner.h"

namespace plimsoll::report {

struct MemoryRow {
  std::string layer;  // "no layer" for what belongs to none
  Bytes total;
  std::vector<std::pair<std::string, Bytes>> kinds;  // in the order of kKinds
  friend bool operator==(const MemoryRow&, const MemoryRow&) = default;
};

inline constexpr size_t kMostRows = 24;

std::vector<MemoryRow> memory_rows(const std::vector<plan::Culprit>& culprits);
// `rows` are to live as long as the picture.
codec::DrawnPicture draw_memory(const std::vector<MemoryRow>& rows);
std::string memory_table(const std::vector<MemoryRow>& rows);

}  // namespace plimsoll::report
