#pragma once

// Lanes: runs of samples of a batch whose sums are folded each by itself and then added up in a
// fixed tree, so that machines that hold some lanes each get the bits of one that holds them all.
//
//   19 samples in 4 lanes     [0, 5)   [5, 10)   [10, 15)   [15, 19)
//   a sum over the batch      (fold of lane 0 + fold of lane 1) + (fold of 2 + fold of 3)
//
// The number of lanes is a power of two. All lanes have ceil(batch / lanes) samples but the last
// ones, which may be shorter or empty; empty lanes have no place in the tree. Blocks count from the
// start of their lane, and no iteration of a loop over samples reaches into another lane.
//
// While the lanes of a sum are folded one after the other, several *partial sums* wait to be added
// up. They lie one after the other in the sum's memory, as the digits of a binary counter do, and
// the first one is the sum in the end:
//
//   after lane       0     1      2        3
//   partial sum 0    0     0+1    0+1      (0+1)+(2+3)
//   partial sum 1                 2

#include <cstdint>
#include <vector>

#include "base/bytes.h"
#include "graph/op.h"
#include "graph/program.h"

namespace plimsoll::graph {

inline constexpr int64_t kMostLanes = 4096;

// Samples of a lane; 0: the batch is one lane.
int64_t lane_length(int64_t batch, int64_t lanes);
// The same of a program's batch, which may be a rank's share.
int64_t lane_length(const Program& program);

// Rows of an axis in one lane, of a batch whose lanes have so many samples; 0: the axis is not cut
// at lanes: it has no samples, or is not cut at all.
int64_t lane_rows(const Axis& axis, int64_t length);

// Whether what lacks this axis of an operator is folded lane by lane, and then joined.
bool is_summed_by_lanes(const Op& op, const Axis& axis, int64_t length);

// Different lengths of the blocks of an axis, the longest first. `lane`: its rows in one, or 0.
std::vector<int64_t> block_lengths(int64_t extent, int64_t lane, int64_t block);

// Lanes with samples.
int64_t filled_lanes(int64_t batch, int64_t length);

// The partial sum that a lane is folded in.
int64_t partial_of(int64_t lane);
// Partial sums of a sum over so many lanes.
int64_t partial_count(int64_t lanes);
// From the start of one partial sum to the next.
Bytes partial_stride(Bytes sum);
// A sum with its partial sums.
Bytes bytes_of_partials(Bytes sum, int64_t partials);

// Adds partial sum `from`, of lanes [middle, end), to the one before it, of lanes [first, middle).
struct LaneJoin {
  int64_t from = 0;
  int64_t first = 0;
  int64_t middle = 0;
  int64_t end = 0;
  friend bool operator==(const LaneJoin&, const LaneJoin&) = default;
};

// Calls visit(LaneJoin) for each of the joins after the fold of a lane, in order. `lanes`: those
// with samples.
template <typename Visit>
void for_each_join(int64_t lane, int64_t lanes, const Visit& visit) {
  int64_t end = lane + 1;
  int64_t partial = partial_of(lane);
  int64_t length = 1;
  // Lanes whose neighbour is there already.
  for (; (lane / length) % 2 == 1; length *= 2) {
    visit(LaneJoin{partial, end - 2 * length, end - length, end});
    --partial;
  }
  if (end < lanes) return;
  // The lanes after the last one are empty.
  int64_t begin = end - length;
  while (partial > 0) {
    const int64_t before = begin & -begin;  // lanes of the partial sum before it
    visit(LaneJoin{partial, begin - before, begin, end});
    begin -= before;
    --partial;
  }
}

}  // namespace plimsoll::graph
