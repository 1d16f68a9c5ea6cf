#include "backend/kernel/tail.h"

#include "backend/kernel/row_block.h"

namespace plimsoll::backend {

bool has_tail(std::span<const graph::Axis> axes, std::span<const int64_t> block, int64_t batch) {
  for (size_t a = 0; a < axes.size(); ++a) {
    if (axes[a].extent.at(batch) % block[a] != 0) return true;
  }
  return cuts_rows(axes, block);
}

}  // namespace plimsoll::backend
