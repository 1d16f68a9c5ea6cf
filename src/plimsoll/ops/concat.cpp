// concat, and the two that undo each other: slice (a range along an axis) and pad_axis (zeros
// around it). The axis is never the batch.

#include "base/format.h"
#include "ops/register.h"
#include "ops/rules.h"

namespace plimsoll::ops {
namespace {

// Batch and rows, but for what is joined or cut along the rows.
std::vector<Axis> axes_beside(const NodeTypes& node) {
  const bool along_rows = read_axis(node, node.inputs[0].shape.rank()) == 1;
  return along_rows ? graph::batch_map_axis(node) : graph::image_map_axes(node);
}

class Concat final : public BatchMapOp {
 public:
  Concat() : BatchMapOp("concat") {}

  std::vector<ValueType> infer(const NodeTypes& node) const override {
    expect_operands(node, 1, 4096);
    expect_rank(node, 0, 2, kAnyRank);
    ValueType y = node.inputs[0];
    const int axis = read_axis(node, y.shape.rank());
    for (size_t i = 1; i < node.inputs.size(); ++i) {
      expect_rank(node, i, y.shape.rank(), y.shape.rank());
      const ValueType& x = node.inputs[i];
      ValueType expected = node.inputs[0];
      expected.shape[axis] = x.shape[axis];
      expect_type(node, i, expected);
      y.shape[axis].count += x.shape[axis].count;
    }
    return {y};
  }

  std::vector<Axis> axes(const NodeTypes& node) const override { return axes_beside(node); }

  void gradient(GradientContext& context) const override {
    const int axis = static_cast<int>(context.attributes().get_int("axis", -1));
    const int rank = context.output_type(0).shape.rank();
    const int counted = axis < 0 ? axis + rank : axis;
    int64_t begin = 0;
    for (int i = 0; i < context.input_count(); ++i) {
      const int64_t count = context.input_type(i).shape[counted].count;
      if (context.wants(i)) {
        const Attributes attributes{{"axis", int64_t{counted}}, {"begin", begin}, {"count", count}};
        context.set_gradient(i, context.builder().call("slice", context.name("slice"),
                                                       {context.output_gradient(0)}, attributes));
      }
      begin += count;
    }
  }

  OpTraits traits() const override { return {.bf16 = graph::kFollowsAll}; }
  ElementMoves element_moves(const NodeTypes& node) const override {
    const int axis = read_axis(node, node.inputs[0].shape.rank());
    return {.kind = ElementMoves::Kind::kJoined, .axis = static_cast<size_t>(axis - 1)};
  }
};

class Slice final : public BatchMapOp {
 public:
  Slice() : BatchMapOp("slice") {}

  std::vector<ValueType> infer(const NodeTypes& node) const override {
    expect_operands(node, 1, 1);
    expect_rank(node, 0, 2, kAnyRank);
    ValueType y = node.inputs[0];
    Dim& dim = y.shape[read_axis(node, y.shape.rank())];
    const int64_t begin = read_int(node, "begin", 0);
    const int64_t count = read_int(node, "count", 1);
    if (begin > dim.count - count) {
      refuse(fmt::format("a range inside of {}", to_string(y.shape)),
             fmt::format("begin={} count={}", begin, count), "Check the node's attributes.");
    }
    dim.count = count;
    return {y};
  }

  std::vector<Axis> axes(const NodeTypes& node) const override { return axes_beside(node); }

  void gradient(GradientContext& context) const override {
    if (!context.wants(0)) return;
    const Shape& x = context.input_type(0).shape;
    const int64_t axis = context.attributes().get_int("axis", -1);
    const int counted = static_cast<int>(axis < 0 ? axis + x.rank() : axis);
    const int64_t begin = context.attributes().get_int("begin");
    const int64_t after = x[counted].count - begin - context.attributes().get_int("count");
    context.set_gradient(0, context.builder().call(
                                "pad_axis", context.name("grad"), {context.output_gradient(0)},
                                {{"axis", int64_t{counted}}, {"before", begin}, {"after", after}}));
  }

  OpTraits traits() const override { return {.bf16 = graph::kFollowsFirst}; }
  ElementMoves element_moves(const NodeTypes& node) const override {
    ElementMoves moves = moves_in_place(node);
    const int axis = read_axis(node, node.inputs[0].shape.rank());
    moves.dims[static_cast<size_t>(axis - 1)].begin = read_int(node, "begin", 0);
    return moves;
  }
};

class PadAxis final : public BatchMapOp {
 public:
  PadAxis() : BatchMapOp("pad_axis") {}

  std::vector<ValueType> infer(const NodeTypes& node) const override {
    expect_operands(node, 1, 1);
    expect_rank(node, 0, 2, kAnyRank);
    ValueType y = node.inputs[0];
    y.shape[read_axis(node, y.shape.rank())].count +=
        read_int(node, "before", 0) + read_int(node, "after", 0);
    return {y};
  }

  std::vector<Axis> axes(const NodeTypes& node) const override { return axes_beside(node); }

  void gradient(GradientContext& context) const override {
    if (!context.wants(0)) return;
    const Shape& x = context.input_type(0).shape;
    const int64_t axis = context.attributes().get_int("axis", -1);
    const int counted = static_cast<int>(axis < 0 ? axis + x.rank() : axis);
    context.set_gradient(
        0, context.builder().call("slice", context.name("grad"), {context.output_gradient(0)},
                                  {{"axis", int64_t{counted}},
                                   {"begin", context.attributes().get_int("before")},
                                   {"count", x[counted].count}}));
  }

  OpTraits traits() const override { return {.bf16 = graph::kFollowsFirst}; }
};

}  // namespace

void register_concat(OpRegistry& registry) {
  add_op<Concat>(registry);
  add_op<Slice>(registry);
  add_op<PadAxis>(registry);
}

}  // namespace plimsoll::ops
