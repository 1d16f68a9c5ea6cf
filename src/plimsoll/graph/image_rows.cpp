#include "graph/image_rows.h"

#include <algorithm>

namespace plimsoll::graph {

bool is_image(const ValueType& type, int rank) {
  return type.shape.rank() >= rank && type.shape.has_batch() && type.shape[0].count == 1;
}

namespace {

int64_t height_of(const ValueType& type) { return type.shape[kImageHeight].count; }

// How each operand of a node meets the rows when all that have a batch have the same rows; empty
// where they do not.
std::vector<Axis> same_rows(const NodeTypes& node, AxisKind kind, int rank) {
  int64_t height = 0;
  for (const auto* types : {&node.inputs, &node.outputs}) {
    for (const ValueType& type : *types) {
      const bool mapped = is_image(type, rank) && type.shape.rank() <= kMostMapped;
      if (mapped) height = std::max(height, height_of(type));
    }
  }
  if (height < 2) return {};
  Axis axis{std::string(kRowsAxis), kind, Dim::constant(height)};
  bool all = true;
  const auto use = [&](const ValueType& type) -> AxisUse {
    if (!type.shape.has_batch()) return {};
    all = all && type.shape.rank() > kImageHeight && type.shape[0].count == 1 &&
          height_of(type) == height;
    return {.dimension = kImageHeight};
  };
  for (const ValueType& type : node.inputs) axis.inputs.push_back(use(type));
  for (const ValueType& type : node.outputs) axis.outputs.push_back(use(type));
  if (!all) return {};
  return {std::move(axis)};
}

std::vector<Axis> joined(std::vector<Axis> first, std::vector<Axis> second) {
  for (Axis& axis : second) first.push_back(std::move(axis));
  return first;
}

}  // namespace

std::vector<Axis> image_map_axes(const NodeTypes& node, int rank) {
  return joined(batch_map_axis(node), same_rows(node, AxisKind::kMap, rank));
}

std::vector<Axis> image_reduce_axes(const NodeTypes& node, int rank) {
  return joined(batch_reduce_axis(node), same_rows(node, AxisKind::kReduce, rank));
}

}  // namespace plimsoll::graph
