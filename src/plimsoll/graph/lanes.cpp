#include "graph/lanes.h"

#include <algorithm>
#include <bit>
#include <functional>

#include "base/ceil_div.h"

namespace plimsoll::graph {

int64_t lane_length(int64_t batch, int64_t lanes) {
  const int64_t length = ceil_div(batch, lanes);
  return length < batch ? length : 0;
}

int64_t lane_length(const Program& program) {
  if (!program.share) return lane_length(program.batch, program.lanes);
  return program.share->lane < program.batch ? program.share->lane : 0;
}

int64_t lane_rows(const Axis& axis, int64_t length) {
  const bool uncut = axis.kind == AxisKind::kWhole || axis.kind == AxisKind::kNormalize;
  return uncut || !axis.extent.of_batch ? 0 : axis.extent.at(length);
}

bool is_summed_by_lanes(const Op& op, const Axis& axis, int64_t length) {
  return axis.kind == AxisKind::kReduce && lane_rows(axis, length) > 0 &&
         op.traits().lanes != LaneJoining::kApart;
}

std::vector<int64_t> block_lengths(int64_t extent, int64_t lane, int64_t block) {
  std::vector<int64_t> lengths;
  const auto add = [&](int64_t length) {
    const bool known = std::ranges::find(lengths, length) != lengths.end();
    if (length > 0 && !known) lengths.push_back(length);
  };
  const int64_t whole = lane == 0 ? extent : std::min(lane, extent);
  for (const int64_t rows : {whole, extent % whole}) {
    if (rows >= block) add(block);
    add(rows % block);
  }
  std::ranges::sort(lengths, std::greater<>());
  return lengths;
}

int64_t filled_lanes(int64_t batch, int64_t length) {
  return length == 0 ? 1 : ceil_div(batch, length);
}

int64_t partial_of(int64_t lane) { return std::popcount(static_cast<uint64_t>(lane)); }

int64_t partial_count(int64_t lanes) { return std::bit_width(static_cast<uint64_t>(lanes)); }

Bytes partial_stride(Bytes sum) { return Bytes(round_up_to_line(sum.count())); }

Bytes bytes_of_partials(Bytes sum, int64_t partials) {
  return partial_stride(sum) * (partials - 1) + sum;
}

}  // namespace plimsoll::graph
