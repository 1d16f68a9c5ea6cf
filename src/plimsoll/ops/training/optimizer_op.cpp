#include "ops/training/optimizer_op.h"

#include "graph/state_rows.h"

namespace plimsoll::ops {

std::vector<ValueType> OptimizerOp::infer(const NodeTypes& node) const {
  const auto slots = static_cast<size_t>(slots_);
  const size_t count = 3 + slots + (counts_ ? 1 : 0);
  expect_operands(node, count, count + (squares_ ? 1 : 0));
  expect_floating(node, 0);
  const ValueType& weight = node.inputs[0];
  for (size_t i = 1; i < 2 + slots; ++i) expect_type(node, i, weight);
  expect_type(node, 2 + slots, {weight.dtype, Shape()});
  if (counts_) expect_type(node, 3 + slots, {DType::kInt64, Shape()});
  if (node.inputs.size() > count) expect_type(node, count, weight);
  if (node.attributes.has("weight_decay")) read_double(node, "weight_decay", 0.0, 1e30);
  check_attributes(node);
  return std::vector<ValueType>(1 + slots, weight);
}

std::vector<graph::Axis> OptimizerOp::axes(const NodeTypes& node) const {
  return graph::state_rows_axis(node, node.inputs[0]);
}

std::vector<Alias> OptimizerOp::aliases(const NodeTypes&) const {
  std::vector<Alias> aliases = {{.input = 0, .output = 0}};
  for (int i = 0; i < slots_; ++i) aliases.push_back({.input = 2 + i, .output = 1 + i});
  return aliases;
}

double OptimizerOp::flops_per_sample(const NodeTypes& node) const {
  return (4.0 + 6.0 * slots_) * static_cast<double>(node.inputs[0].shape.elements_per_sample());
}

}  // namespace plimsoll::ops
