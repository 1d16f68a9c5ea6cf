#pragma once

// Which rows of an operand one block of a node touches.

#include <cstdint>
#include <span>
#include <vector>

#include "graph/op.h"

namespace plimsoll::backend {

// A box in a value: its first element and its extents, one per dimension.
struct Region {
  std::vector<int64_t> begin;
  std::vector<int64_t> dims;
  friend bool operator==(const Region&, const Region&) = default;
};

// The region of a value of this type, met by each axis as `uses` says (one per axis): rows
// [begin, begin + extent) of the axis, by the rule of graph::AxisUse, clipped to the value.
Region find_region(const graph::ValueType& type, int64_t batch,
                   std::span<const graph::AxisUse> uses, std::span<const int64_t> begin,
                   std::span<const int64_t> extents);

// How each axis meets input `input` (or output `output`) of the node.
std::vector<graph::AxisUse> uses_of_input(std::span<const graph::Axis> axes, size_t input);
std::vector<graph::AxisUse> uses_of_output(std::span<const graph::Axis> axes, size_t output);

// Strides of a dense row-major array.
std::vector<int64_t> dense_strides(std::span<const int64_t> dims);

int64_t product(std::span<const int64_t> dims);

}  // namespace plimsoll::backend
