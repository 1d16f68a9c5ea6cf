#include "graph/op.h"

#include <algorithm>

#include "base/error.h"
#include "base/suggest.h"
#include "graph/autodiff.h"
#include "graph/value_axes.h"

namespace plimsoll::graph {
namespace {

std::vector<Axis> batch_axis(const NodeTypes& node, AxisKind kind) {
  Axis axis{.name = std::string(kBatchAxis), .kind = kind, .extent = Dim::batch()};
  bool batched = false;
  for (const ValueType& type : node.inputs) {
    axis.inputs.push_back(batch_use(type));
    batched |= type.shape.has_batch();
  }
  for (const ValueType& type : node.outputs) {
    axis.outputs.push_back(batch_use(type));
    batched |= type.shape.has_batch();
  }
  if (!batched) return {};
  return {axis};
}

bool name_less(const std::unique_ptr<Op>& op, std::string_view name) { return op->name() < name; }

}  // namespace

std::string_view to_string(AxisKind kind) {
  switch (kind) {
    case AxisKind::kMap:
      return "map";
    case AxisKind::kWindow:
      return "window";
    case AxisKind::kScan:
      return "scan";
    case AxisKind::kReduce:
      return "reduce";
    case AxisKind::kNormalize:
      return "normalize";
    case AxisKind::kWhole:
      return "whole";
  }
  PLIMSOLL_CHECK(false, "unknown axis kind");
}

void Op::gradient(GradientContext&) const {
  throw Error(ErrorKind::kModel, "expected an operator with a gradient, received \"" +
                                     std::string(name()) +
                                     "\", which has none. Keep it out of the path from a trainable "
                                     "weight to the loss.");
}

double Op::flops_per_sample(const NodeTypes& node) const {
  double elements = 0;
  for (const ValueType& type : node.outputs) {
    elements += static_cast<double>(type.shape.elements_per_sample());
  }
  return elements;
}

void OpRegistry::add(std::unique_ptr<Op> op) {
  const auto place = std::lower_bound(ops_.begin(), ops_.end(), op->name(), name_less);
  PLIMSOLL_CHECK(place == ops_.end() || (*place)->name() != op->name(),
                 "two operators are called " + std::string(op->name()));
  ops_.insert(place, std::move(op));
}

const Op* OpRegistry::find(std::string_view name) const {
  const auto place = std::lower_bound(ops_.begin(), ops_.end(), name, name_less);
  return place != ops_.end() && (*place)->name() == name ? place->get() : nullptr;
}

const Op& OpRegistry::get(std::string_view name) const {
  if (const Op* op = find(name)) return *op;
  std::vector<std::string_view> names;
  names.reserve(ops_.size());
  for (const auto& op : ops_) names.push_back(op->name());
  throw Error(ErrorKind::kModel, "expected the name of an operator, received \"" +
                                     std::string(name) + "\"." + did_you_mean(name, names));
}

std::vector<const Op*> OpRegistry::all() const {
  std::vector<const Op*> result;
  result.reserve(ops_.size());
  for (const auto& op : ops_) result.push_back(op.get());
  return result;
}

std::vector<Axis> axes_of(const Graph& graph, NodeId node) {
  const std::vector<ValueType> inputs = input_types(graph, node);
  const std::vector<ValueType> outputs = output_types(graph, node);
  const Node& n = graph.node(node);
  return n.op->axes({n.attributes, inputs, outputs});
}

int find_axis(std::span<const Axis> axes, std::string_view name) {
  for (size_t i = 0; i < axes.size(); ++i) {
    if (axes[i].name == name) return static_cast<int>(i);
  }
  return -1;
}

std::vector<Axis> batch_map_axis(const NodeTypes& node) { return batch_axis(node, AxisKind::kMap); }

std::vector<Axis> batch_reduce_axis(const NodeTypes& node) {
  return batch_axis(node, AxisKind::kReduce);
}

}  // namespace plimsoll::graph
