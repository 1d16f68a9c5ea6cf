#include "graph/state_rows.h"

namespace plimsoll::graph {

std::vector<Axis> state_rows_axis(const NodeTypes& node, const ValueType& variable) {
  if (variable.shape.rank() == 0 || variable.shape.has_batch()) return {};
  const auto use = [&](const ValueType& type) {
    return AxisUse{.dimension = type == variable ? 0 : -1};
  };
  Axis axis{std::string(kStateRowsAxis), AxisKind::kMap, variable.shape[0]};
  for (const ValueType& type : node.inputs) axis.inputs.push_back(use(type));
  for (const ValueType& type : node.outputs) axis.outputs.push_back(use(type));
  return {std::move(axis)};
}

}  // namespace plimsoll::graph
