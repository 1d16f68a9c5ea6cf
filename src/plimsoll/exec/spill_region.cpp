#include "exec/spill_region.h"

#include <algorithm>

namespace plimsoll::exec {

int64_t SpillRegion::file_end() const {
  int64_t end = offset + unit;
  for (size_t d = 0; d < rows.size(); ++d) end += (rows[d] - 1) * file_strides[d];
  return end;
}

void RegionWalk::start(const SpillRegion& region, int64_t page, int64_t most) {
  page_ = page;
  most_ = most;
  outer_ = region.rows.size();
  run_ = region.unit;
  while (outer_ > 0 && region.memory_strides[outer_ - 1] == run_ &&
         region.file_strides[outer_ - 1] == run_) {
    run_ *= region.rows[--outer_];
  }
  at_.assign(outer_, 0);
  inside_ = 0;
  ended_ = run_ == 0 || std::ranges::any_of(region.rows, [](int64_t rows) { return rows == 0; });
}

SpillPiece RegionWalk::piece(const SpillRegion& region) const {
  int64_t in_memory = inside_;
  int64_t in_file = region.offset + inside_;
  for (size_t d = 0; d < outer_; ++d) {
    in_memory += at_[d] * region.memory_strides[d];
    in_file += at_[d] * region.file_strides[d];
  }
  const int64_t stop = in_file / page_ * page_ + most_;
  return {region.memory + in_memory, in_file, std::min(run_ - inside_, stop - in_file)};
}

void RegionWalk::advance(const SpillRegion& region) {
  inside_ += piece(region).bytes;
  if (inside_ < run_) return;
  inside_ = 0;
  size_t d = outer_;
  while (d > 0 && ++at_[d - 1] == region.rows[d - 1]) at_[--d] = 0;
  ended_ = d == 0;
}

}  // namespace plimsoll::exec
