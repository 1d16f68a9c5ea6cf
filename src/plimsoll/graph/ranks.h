#pragma once

// Ranks that share a step: each has an aligned run of its lanes (graph/lanes.h), and the sums of
// ranks are added up in the tree in which lanes are.
//
//   19 samples in 4 lanes, two ranks     rank 0: [0, 10)     rank 1: [10, 19)
//    3 samples in 4 lanes, two ranks     rank 0: [0, 2)      rank 1: [2, 3)
//    2 samples in 4 lanes, two ranks     rank 0: [0, 2)      rank 1: none
//
// A rank without samples runs its program on one sample of the batch all the same, so that all
// ranks exchange in one order; what it sums has no place in the tree.

#include <cstdint>

#include "graph/program.h"

namespace plimsoll::graph {

// Who a program is for: rank `rank` of `count`, a power of two that divides the number of lanes.
struct RankPlace {
  int rank = 0;
  int count = 1;
  friend bool operator==(const RankPlace&, const RankPlace&) = default;
};

// The share of a step of so many samples.
Share share_of(int64_t samples, int64_t lanes, const RankPlace& place);
// Samples of that share that are computed: those that it has, or one.
int64_t batch_of(const Share& share);

// The shape of a rank's part of a value where each of `parts` ranks holds one, in their order: the
// same on all, and what lies after the value's end is 0. A part has whole rows of a matrix that
// has many, or as many as it takes for equal parts, and else so many elements.
Shape part_shape(const Shape& whole, int64_t parts);
bool has_parts_of_rows(const Shape& whole, int64_t parts);

}  // namespace plimsoll::graph
