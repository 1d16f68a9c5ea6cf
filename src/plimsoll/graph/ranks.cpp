#include "graph/ranks.h"

#include <algorithm>

#include "base/ceil_div.h"

namespace plimsoll::graph {

Share share_of(int64_t samples, int64_t lanes, const RankPlace& place) {
  Share share;
  share.lane = ceil_div(samples, lanes);
  share.samples = samples;
  share.each = share.lane * (lanes / place.count);
  share.first = std::min(samples, place.rank * share.each);
  return share;
}

int64_t batch_of(const Share& share) {
  return std::max<int64_t>(std::min(share.each, share.samples - share.first), 1);
}

bool has_parts_of_rows(const Shape& whole, int64_t parts) {
  constexpr int64_t kManyRows =
      64;  // of a part, so that what the last ones have too much is little
  if (whole.rank() != 2) return false;
  return whole[0].count % parts == 0 || whole[0].count >= kManyRows * parts;
}

Shape part_shape(const Shape& whole, int64_t parts) {
  if (has_parts_of_rows(whole, parts)) {
    return Shape({Dim::constant(ceil_div(whole[0].count, parts)), whole[1]});
  }
  return Shape({Dim::constant(ceil_div(whole.element_count(1), parts))});
}

}  // namespace plimsoll::graph
