// adam_rows: Adam on a table of which a step reads some rows, straight from what was read.
//
//   (w, ids, dy, m, v, (largest v,) lr, iterations) → (w', m', v'(, largest v'))
//
// It is Adam with g = embedding_grad(ids, dy), which never exists: rows that nobody read have g = 0
// and change by their moments alone. Where a row was read several times the first moment takes the
// sum of its gradients, and the second one the sum of their squares: Keras on TensorFlow keeps such
// gradients as pairs of number and row, and squares them before it adds them up.
//
// {part_rows}: the table and its slots are a rank's part of them, which has so many rows
// (ops/training/rank_parts.cpp); 0, or left out: the whole table.

#include "graph/state_rows.h"
#include "ops/register.h"
#include "ops/rules.h"

namespace plimsoll::ops {
namespace {

class AdamRows final : public NamedOp {
 public:
  AdamRows(std::string_view name, size_t slots) : NamedOp(name), slots_(slots) {}

  std::vector<ValueType> infer(const NodeTypes& node) const override {
    expect_operands(node, 5 + slots_, 5 + slots_);
    expect_floating(node, 0);
    expect_rank(node, 0, 2, 2);
    const ValueType& w = node.inputs[0];
    expect_integer(node, 1);
    std::vector<Dim> dims(node.inputs[1].shape.dims().begin(), node.inputs[1].shape.dims().end());
    dims.push_back(w.shape[1]);
    expect_type(node, 2, {w.dtype, Shape(std::move(dims))});
    for (size_t i = 0; i < slots_; ++i) expect_type(node, 3 + i, w);
    expect_type(node, 3 + slots_, {w.dtype, Shape()});
    expect_type(node, 4 + slots_, {DType::kInt64, Shape()});
    if (node.attributes.has("part_rows")) read_int(node, "part_rows", 0);
    read_double(node, "beta_1", 0.0, 1.0);
    read_double(node, "beta_2", 0.0, 1.0);
    read_double(node, "epsilon", 0.0, 1e30);
    if (node.attributes.has("weight_decay")) read_double(node, "weight_decay", 0.0, 1e30);
    return std::vector<ValueType>(1 + slots_, w);
  }

  std::vector<graph::Axis> axes(const NodeTypes& node) const override {
    std::vector<graph::Axis> axes = graph::state_rows_axis(node, node.inputs[0]);
    // A batch of gradients may look like a table.
    axes.front().inputs[2].dimension = -1;
    return axes;
  }

  std::vector<Alias> aliases(const NodeTypes&) const override {
    std::vector<Alias> aliases = {{.input = 0, .output = 0}};
    for (size_t i = 0; i < slots_; ++i) {
      aliases.push_back({.input = static_cast<int>(3 + i), .output = static_cast<int>(1 + i)});
    }
    return aliases;
  }

  double flops_per_sample(const NodeTypes& node) const override {
    return 16.0 * static_cast<double>(node.inputs[0].shape.elements_per_sample());
  }

 private:
  size_t slots_;
};

}  // namespace

void register_adam_rows(OpRegistry& registry) {
  add_op<AdamRows>(registry, "adam_rows", size_t{2});
  add_op<AdamRows>(registry, "adam_rows_amsgrad", size_t{3});
}

}  // namespace plimsoll::ops
