// layer_norm: each sample's trailing dimensions to mean 0 and variance 1, then scaled and shifted.
//
//   layer_norm        (x, gamma?, beta?) {dims, epsilon, scale, center} → y, stats (…, 2)
//                     stats: mean and 1 / sqrt(variance + epsilon) of each row
//   layer_norm_grad   (dy, x, stats, gamma?) → dx
//   layer_norm_sums   (dy, x, stats) → (2, C): row 0 Σ dy, row 1 Σ dy · (x − mean) / deviation
//
// `dims` trailing dimensions make a row of C elements; gamma and beta have these dimensions. The
// sums are those of the whole batch, added up block by block.

#include "base/format.h"
#include "ops/register.h"
#include "ops/rules.h"

namespace plimsoll::ops {
namespace {

struct Rows {
  Shape stats;      // leading dimensions and 2
  Shape parameter;  // trailing dimensions
  int64_t columns = 1;
};

Rows split_rows(const NodeTypes& node, size_t input) {
  const Shape& x = node.inputs[input].shape;
  const int64_t dims = read_int(node, "dims", 1);
  if (dims >= x.rank()) {
    refuse(fmt::format("fewer than {} dims", x.rank()), std::to_string(dims),
           "The batch is not normalized over.");
  }
  Rows rows;
  std::vector<Dim> outer(x.dims().begin(), x.dims().end() - dims);
  outer.push_back(Dim::constant(2));
  std::vector<Dim> inner(x.dims().end() - dims, x.dims().end());
  for (const Dim& dim : inner) rows.columns *= dim.count;
  rows.stats = Shape(std::move(outer));
  rows.parameter = Shape(std::move(inner));
  return rows;
}

class LayerNorm final : public BatchMapOp {
 public:
  LayerNorm() : BatchMapOp("layer_norm") {}

  std::vector<ValueType> infer(const NodeTypes& node) const override {
    const bool scale = node.attributes.get_bool("scale", true);
    const bool center = node.attributes.get_bool("center", true);
    const size_t count = 1 + (scale ? 1 : 0) + (center ? 1 : 0);
    expect_operands(node, count, count);
    expect_floating(node, 0);
    expect_rank(node, 0, 2, kAnyRank);
    read_double(node, "epsilon", 0.0, 1e30);
    const ValueType& x = node.inputs[0];
    const Rows rows = split_rows(node, 0);
    for (size_t i = 1; i < count; ++i) expect_type(node, i, {x.dtype, rows.parameter});
    return {x, {x.dtype, rows.stats}};
  }

  std::vector<Alias> aliases(const NodeTypes&) const override { return {{0, 0}}; }

  void gradient(GradientContext& context) const override {
    graph::GraphBuilder& builder = context.builder();
    const bool scale = context.attributes().get_bool("scale", true);
    const bool center = context.attributes().get_bool("center", true);
    const ValueId dy = context.output_gradient(0);
    const Attributes dims{{"dims", context.attributes().get_int("dims")}};
    const int beta = scale ? 2 : 1;
    if ((scale && context.wants(1)) || (center && context.wants(beta))) {
      const ValueId sums = builder.call("layer_norm_sums", context.name("sums"),
                                        {dy, context.input(0), context.output(1)}, dims);
      if (scale && context.wants(1)) context.set_gradient(1, row_of(context, sums, 1, 1));
      if (center && context.wants(beta)) context.set_gradient(beta, row_of(context, sums, 0, beta));
    }
    if (!context.wants(0)) return;
    std::vector<ValueId> operands = {dy, context.input(0), context.output(1)};
    if (scale) operands.push_back(context.input(1));
    Attributes attributes = dims;
    attributes.set("scale", scale);
    context.set_gradient(
        0, builder.call("layer_norm_grad", context.name("grad"), operands, attributes));
  }

  double flops_per_sample(const NodeTypes& node) const override {
    return 8.0 * static_cast<double>(node.inputs[0].shape.elements_per_sample());
  }

 private:
  static ValueId row_of(GradientContext& context, ValueId sums, int row, int input) {
    const ValueId taken =
        context.builder().call("take_row", context.name("grad_parameter"), {sums}, {{"row", row}});
    const Shape& shape = context.input_type(input).shape;
    if (shape.rank() == 1) return taken;
    return context.builder().call("reshape", context.name("grad_parameter"), {taken},
                                  {{"shape", shape.at(1)}});
  }
};

class LayerNormGrad final : public BatchMapOp {
 public:
  LayerNormGrad() : BatchMapOp("layer_norm_grad") {}

  std::vector<ValueType> infer(const NodeTypes& node) const override {
    const size_t count = node.attributes.get_bool("scale", true) ? 4 : 3;
    expect_operands(node, count, count);
    expect_floating(node, 0);
    expect_rank(node, 0, 2, kAnyRank);
    expect_type(node, 1, node.inputs[0]);
    const Rows rows = split_rows(node, 0);
    expect_type(node, 2, {node.inputs[0].dtype, rows.stats});
    if (count == 4) expect_type(node, 3, {node.inputs[0].dtype, rows.parameter});
    return {node.inputs[0]};
  }

  std::vector<Alias> aliases(const NodeTypes&) const override { return {{0, 0}}; }

  double flops_per_sample(const NodeTypes& node) const override {
    return 12.0 * static_cast<double>(node.inputs[0].shape.elements_per_sample());
  }
};

class LayerNormSums final : public BatchReduceOp {
 public:
  LayerNormSums() : BatchReduceOp("layer_norm_sums") {}

  std::vector<ValueType> infer(const NodeTypes& node) const override {
    expect_operands(node, 3, 3);
    expect_floating(node, 0);
    expect_rank(node, 0, 2, kAnyRank);
    expect_type(node, 1, node.inputs[0]);
    const Rows rows = split_rows(node, 0);
    expect_type(node, 2, {node.inputs[0].dtype, rows.stats});
    return {{node.inputs[0].dtype, Shape{Dim::constant(2), Dim::constant(rows.columns)}}};
  }

  double flops_per_sample(const NodeTypes& node) const override {
    return 4.0 * static_cast<double>(node.inputs[0].shape.elements_per_sample());
  }
};

}  // namespace

void register_layer_norm(OpRegistry& registry) {
  add_op<LayerNorm>(registry);
  add_op<LayerNormGrad>(registry);
  add_op<LayerNormSums>(registry);
}

}  // namespace plimsoll::ops
