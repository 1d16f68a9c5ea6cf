// Rows that a state variable keeps for the places of a batch.
//
//   take_rows  (N, C) → (B, C)            row i is what place i of the batch had
//   put_rows   (B, C) {count: N} → (N, C) the way back; places that no sample has are 0
//
// A batch has as many samples as the variable has rows: what layers ask for is checked where
// programs are built (layers/training/programs.cpp). No gradient passes from batch to batch.

#include "ops/register.h"
#include "ops/rules.h"

namespace plimsoll::ops {
namespace {

class TakeRows final : public BatchMapOp {
 public:
  TakeRows() : BatchMapOp("take_rows") {}

  std::vector<ValueType> infer(const NodeTypes& node) const override {
    expect_operands(node, 1, 1);
    expect_floating(node, 0);
    expect_rank(node, 0, 2, 2);
    const Shape& x = node.inputs[0].shape;
    if (x.has_batch()) refuse("rows without a batch", to_string(x), "Check the node's operands.");
    return {{node.inputs[0].dtype, Shape{Dim::batch(), x[1]}}};
  }

  OpTraits traits() const override { return {.cheap = true}; }
};

class PutRows final : public BatchReduceOp {
 public:
  PutRows() : BatchReduceOp("put_rows") {}

  std::vector<ValueType> infer(const NodeTypes& node) const override {
    expect_operands(node, 1, 1);
    expect_floating(node, 0);
    expect_rank(node, 0, 2, 2);
    const Dim rows = Dim::constant(read_int(node, "count", 1));
    return {{node.inputs[0].dtype, Shape{rows, node.inputs[0].shape[1]}}};
  }

  OpTraits traits() const override { return {.lanes = graph::LaneJoining::kApart}; }
};

}  // namespace

void register_batch_rows(OpRegistry& registry) {
  add_op<PutRows>(registry);
  add_op<TakeRows>(registry);
}

}  // namespace plimsoll::ops
