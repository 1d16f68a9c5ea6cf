#pragma once

// Exact placement: finds offsets within a capacity, or proves that there are none, or gives up.
//
// Depth-first search over canonical placements. Where rectangles fit at all, they fit such that
// each lies at the bottom or on top of another, and such a placement is built by placing rectangles
// by rising offset, each at the lowest offset that those placed before leave it. So a node of the
// search only chooses which rectangle comes next; equal offsets come in one order. Branches end
// where
//   - over some section (a moment at which most rectangles are alive at once) the lowest waiting
//   rectangle
//     and all bytes that wait there pass the capacity,
//   - a rectangle would leave a gap in which another one that waits fits whole,
//   - the same rectangles waited at the same offsets before.
// Parts that nothing waiting joins any more are solved one by one.
//
//   offset ▲ ┌──┐          sections: the time in which a, b and c live together is one, that of
//          │ │c │ ┌────┐   a and d another. When a and b are placed, c and d are parts of their own
//          │ ├──┤ │ d  │
//          │ │b │ ├────┤
//          │ ├──┴─┴────┤
//          │ │    a    │
//          └─┴─────────┴──▶ time
//
// Three orders of rectangles take turns, each with more nodes from round to round. Effort is
// counted in looks at a rectangle and never in seconds, so that equal rectangles get equal places.
// What is held is bounded, too, whatever the rectangles: a search that would pass it is given up,
// and of the states that were met before the latest are remembered. The search is that of Moffitt's
// MiniMalloc (ASPLOS 2023), with states remembered.

#include <cstdint>
#include <vector>

#include "base/bytes.h"
#include "plan/place/skyline.h"

namespace plimsoll::plan {

enum class PackVerdict : uint8_t {
  kPacked,
  kImpossible,  // no placement has this capacity
  kSpent,       // the effort was, or the room
};

struct PackResult {
  PackVerdict verdict = PackVerdict::kSpent;
  std::vector<int64_t> offsets;  // one per rectangle where it is packed
  int64_t work = 0;              // looks at a rectangle
};

// What the search may hold, beside some 150 bytes a rectangle.
inline constexpr Bytes kPackRoom = 2_MiB;

// `most_work`: looks at a rectangle, about 50 million a second.
PackResult pack_within(const std::vector<Rectangle>& rectangles, int64_t capacity,
                       int64_t most_work);

}  // namespace plimsoll::plan
