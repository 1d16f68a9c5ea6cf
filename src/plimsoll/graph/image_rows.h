#pragma once

// The rows of images as an axis: dimension 1 of (B, height, width, channels), and of whatever has
// more dimensions than that: of a volume (B, depth, height, width, channels) a row is a slab.
//
// What maps or sums images element by element may be called for some rows of them. A value with a
// batch counts as an image from rank 4 on, or, where a node asks for it, from rank 3 on (losses of
// pixels have lost their channels). Maps and sums cut values of the ranks that windows move over
// (kMostMapped); where no window keeps a value large, other axes serve it as well. The axis stands
// after the batch, so sums go over the rows of one sample after the other. Windows, which need
// rows above and below, are the operators' own business.

#include <vector>

#include "graph/op.h"

namespace plimsoll::graph {

inline constexpr int kImageHeight = 1;  // the dimension
inline constexpr int kImageRank = 4;
inline constexpr int kPixelRank = 3;
inline constexpr int kMostMapped = 5;

bool is_image(const ValueType& type, int rank = kImageRank);

// The batch and, where there are images among the operands and everything with a batch has their
// rows, the rows: of a map, or of a sum.
std::vector<Axis> image_map_axes(const NodeTypes& node, int rank = kImageRank);
std::vector<Axis> image_reduce_axes(const NodeTypes& node, int rank = kImageRank);

}  // namespace plimsoll::graph
