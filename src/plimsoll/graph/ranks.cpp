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

int64_t part_elements(int64_t elements, int64_t parts) { return ceil_div(elements, parts); }

}  // namespace plimsoll::graph
