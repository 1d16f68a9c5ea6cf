// Which elements of a row of the last dimension are the smallest or largest, and elements by
// number.
//
// arg_extremum_last {of}: the number of the first that is largest (smallest), as int32. NaNs are
// passed over; where no element is above the lowest finite number (below the highest) it is 0.
// argsort_last {descending}: the numbers of all in order, of floats or int32, equal ones as they
// stand; a NaN comes last. gather_last: (B, …, C), int32 (B, …, M) → (B, …, M), the elements that
// have those numbers, of floats or int32; a number outside of the row gives 0. scatter_last
// {count}: (dy, numbers) → (B, …, count), the sums of what goes to each.

#include "ops/register.h"
#include "ops/rules.h"

namespace plimsoll::ops {
namespace {

Shape leading(const Shape& shape, Dim last) {
  std::vector<Dim> dims(shape.dims().begin(), shape.dims().end());
  dims.back() = last;
  return Shape(std::move(dims));
}

class ArgExtremumLast final : public BatchMapOp {
 public:
  ArgExtremumLast() : BatchMapOp("arg_extremum_last") {}

  std::vector<ValueType> infer(const NodeTypes& node) const override {
    expect_operands(node, 1, 1);
    expect_floating(node, 0);
    expect_rank(node, 0, 2, kAnyRank);
    read_name(node, "of", "maximum", {"maximum", "minimum"});
    return {{DType::kInt32, without_last(node.inputs[0].shape)}};
  }

  OpTraits traits() const override { return {.cheap = true}; }
};

class ArgsortLast final : public BatchMapOp {
 public:
  ArgsortLast() : BatchMapOp("argsort_last") {}

  std::vector<ValueType> infer(const NodeTypes& node) const override {
    expect_operands(node, 1, 1);
    if (node.inputs[0].dtype != DType::kInt32) expect_floating(node, 0);
    expect_rank(node, 0, 2, kAnyRank);
    node.attributes.get_bool("descending", false);
    return {{DType::kInt32, node.inputs[0].shape}};
  }
};

class GatherLast final : public BatchMapOp {
 public:
  GatherLast() : BatchMapOp("gather_last") {}

  std::vector<ValueType> infer(const NodeTypes& node) const override {
    expect_operands(node, 2, 2);
    if (node.inputs[0].dtype != DType::kInt32) expect_floating(node, 0);
    expect_rank(node, 0, 2, kAnyRank);
    const Shape& x = node.inputs[0].shape;
    expect_rank(node, 1, x.rank(), x.rank());
    const Shape y = leading(x, node.inputs[1].shape[x.rank() - 1]);
    expect_type(node, 1, {DType::kInt32, y});
    return {{node.inputs[0].dtype, y}};
  }

  OpTraits traits() const override { return {.cheap = true}; }

  void gradient(GradientContext& context) const override {
    if (!context.wants(0)) return;
    const Shape& x = context.input_type(0).shape;
    context.set_gradient(0, context.builder().call("scatter_last", context.name("grad"),
                                                   {context.output_gradient(0), context.input(1)},
                                                   {{"count", x[x.rank() - 1].count}}));
  }
};

class ScatterLast final : public BatchMapOp {
 public:
  ScatterLast() : BatchMapOp("scatter_last") {}

  std::vector<ValueType> infer(const NodeTypes& node) const override {
    expect_operands(node, 2, 2);
    expect_floating(node, 0);
    expect_rank(node, 0, 2, kAnyRank);
    expect_type(node, 1, {DType::kInt32, node.inputs[0].shape});
    return {{node.inputs[0].dtype,
             leading(node.inputs[0].shape, Dim::constant(read_int(node, "count", 1)))}};
  }
};

}  // namespace

void register_order(OpRegistry& registry) {
  add_op<ArgExtremumLast>(registry);
  add_op<ArgsortLast>(registry);
  add_op<GatherLast>(registry);
  add_op<ScatterLast>(registry);
}

}  // namespace plimsoll::ops
