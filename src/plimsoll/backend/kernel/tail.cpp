#include "backend/kernel/tail.h"

#include <algorithm>

#include "backend/kernel/row_block.h"
#include "graph/lanes.h"

namespace plimsoll::backend {

int64_t shape_count(std::span<const graph::Axis> axes, std::span<const int64_t> block,
                    const graph::Program& program) {
  const int64_t lane = graph::lane_length(program);
  int64_t most = cuts_rows(axes, block) ? 2 : 1;
  for (size_t a = 0; a < axes.size(); ++a) {
    const std::vector<int64_t> lengths = graph::block_lengths(
        axes[a].extent.at(program.batch), graph::lane_rows(axes[a], lane), block[a]);
    most = std::max(most, std::ssize(lengths));
  }
  return most;
}

}  // namespace plimsoll::backend
