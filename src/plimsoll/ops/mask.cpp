// Masks over time and other leading dimensions, as bool values.
//
// apply_mask: zero where the mask is false; the mask has the value's leading dimensions.
// select: the first value where the mask is true, the second where it is not; likewise.
// any_so_far: whether any step so far counts, in the order in which a recurrence runs.
// reverse: the elements of one axis from the last to the first.

#include "ops/register.h"
#include "ops/rules.h"

namespace plimsoll::ops {
namespace {

class ApplyMask final : public BatchMapOp {
 public:
  ApplyMask() : BatchMapOp("apply_mask") {}

  std::vector<ValueType> infer(const NodeTypes& node) const override {
    expect_operands(node, 2, 2);
    expect_floating(node, 0);
    const Shape& x = node.inputs[0].shape;
    const int rank = node.inputs[1].shape.rank();
    expect_rank(node, 1, 1, x.rank());
    expect_type(node, 1,
                {DType::kBool, Shape(std::vector<Dim>(x.dims().begin(), x.dims().begin() + rank))});
    return {node.inputs[0]};
  }

  std::vector<Alias> aliases(const NodeTypes&) const override { return {{0, 0}}; }
  OpTraits traits() const override { return {.cheap = true}; }

  void gradient(GradientContext& context) const override {
    if (!context.wants(0)) return;
    context.set_gradient(0, context.builder().call("apply_mask", context.name("grad"),
                                                   {context.output_gradient(0), context.input(1)}));
  }
};

// (a, b, mask) → a where the mask is true, b elsewhere
class Select final : public BatchMapOp {
 public:
  Select() : BatchMapOp("select") {}

  std::vector<ValueType> infer(const NodeTypes& node) const override {
    expect_operands(node, 3, 3);
    expect_floating(node, 0);
    expect_type(node, 1, node.inputs[0]);
    const Shape& x = node.inputs[0].shape;
    const int rank = node.inputs[2].shape.rank();
    expect_rank(node, 2, 1, x.rank());
    expect_type(node, 2,
                {DType::kBool, Shape(std::vector<Dim>(x.dims().begin(), x.dims().begin() + rank))});
    return {node.inputs[0]};
  }

  std::vector<Alias> aliases(const NodeTypes&) const override { return {{0, 0}, {1, 0}}; }
  OpTraits traits() const override { return {.cheap = true}; }

  void gradient(GradientContext& context) const override {
    graph::GraphBuilder& builder = context.builder();
    const ValueId dy = context.output_gradient(0);
    const ValueId mask = context.input(2);
    if (context.wants(0)) {
      context.set_gradient(0, builder.call("apply_mask", context.name("grad_left"), {dy, mask}));
    }
    if (!context.wants(1)) return;
    const ValueId other = builder.call("logical", context.name("other"), {mask}, {{"kind", "not"}});
    context.set_gradient(1, builder.call("apply_mask", context.name("grad_right"), {dy, other}));
  }
};

class AnySoFar final : public BatchMapOp {
 public:
  AnySoFar() : BatchMapOp("any_so_far") {}

  std::vector<ValueType> infer(const NodeTypes& node) const override {
    expect_operands(node, 1, 1);
    expect_rank(node, 0, 2, 2);
    expect_type(node, 0, {DType::kBool, node.inputs[0].shape});
    node.attributes.get_bool("go_backwards", false);
    return {node.inputs[0]};
  }

  OpTraits traits() const override { return {.cheap = true}; }
};

class Reverse final : public BatchMapOp {
 public:
  Reverse() : BatchMapOp("reverse") {}

  std::vector<ValueType> infer(const NodeTypes& node) const override {
    expect_operands(node, 1, 1);
    expect_rank(node, 0, 2, kAnyRank);
    read_axis(node, node.inputs[0].shape.rank());
    return {node.inputs[0]};
  }

  void gradient(GradientContext& context) const override {
    if (!context.wants(0)) return;
    context.set_gradient(
        0, context.builder().call("reverse", context.name("grad"), {context.output_gradient(0)},
                                  context.attributes()));
  }

  OpTraits traits() const override { return {.cheap = true}; }
  ElementMoves element_moves(const NodeTypes& node) const override {
    ElementMoves moves = moves_in_place(node);
    const int axis = read_axis(node, node.inputs[0].shape.rank());
    ElementMoves::Dimension& reversed = moves.dims[static_cast<size_t>(axis - 1)];
    reversed.begin = node.inputs[0].shape[axis].count - 1;
    reversed.reversed = true;
    return moves;
  }
};

}  // namespace

void register_mask(OpRegistry& registry) {
  add_op<AnySoFar>(registry);
  add_op<ApplyMask>(registry);
  add_op<Reverse>(registry);
  add_op<Select>(registry);
}

}  // namespace plimsoll::ops
