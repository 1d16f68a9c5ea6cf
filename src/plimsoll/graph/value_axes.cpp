#include "graph/value_axes.h"

#include "graph/state_rows.h"

namespace plimsoll::graph {

AxisUse batch_use(const ValueType& type) {
  if (!type.shape.has_batch()) return {};
  const int64_t rows = type.shape[0].count;
  return {.dimension = 0, .stride = rows, .before = 0, .after = rows - 1};
}

std::vector<ValueAxis> value_axes(const Graph& graph, ValueId id,
                                  const std::vector<Axis>& producer) {
  const Value& value = graph.value(id);
  const Shape& shape = value.type.shape;
  switch (value.kind) {
    case ValueKind::kInput:
      if (!shape.has_batch()) return {};
      return {{std::string(kBatchAxis), Dim::batch(), batch_use(value.type)}};
    case ValueKind::kState:
      if (shape.rank() == 0) return {};
      return {{std::string(kStateRowsAxis), shape[0], {.dimension = 0}}};
    case ValueKind::kNode:
      break;
  }
  std::vector<ValueAxis> axes;
  for (const Axis& axis : producer) {
    const AxisUse& use = axis.outputs[static_cast<size_t>(value.output)];
    if (use.dimension >= 0) axes.push_back({axis.name, axis.extent, use});
  }
  return axes;
}

std::vector<ValueAxis> value_axes(const Graph& graph, ValueId id) {
  const Value& value = graph.value(id);
  if (value.kind != ValueKind::kNode) return value_axes(graph, id, {});
  return value_axes(graph, id, axes_of(graph, value.producer));
}

}  // namespace plimsoll::graph
