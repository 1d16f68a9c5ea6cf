// rms_norm: each sample's trailing dimensions by their root mean square, then scaled.
//
//   rms_norm        (x, scale) {dims, epsilon} → y, inverse (…): 1 / sqrt(mean(x²) + epsilon) of
//                   each row
//   rms_norm_grad   (dy, x, inverse, scale) → dx
//   rms_norm_sums   (dy, x, inverse) → (C): Σ dy · x · inverse, the gradient of scale
//
// `dims` trailing dimensions make a row of C elements; scale has these dimensions. The sums are
// those of the whole batch, added up block by block.

#include "base/format.h"
#include "ops/register.h"
#include "ops/rules.h"

namespace plimsoll::ops {
namespace {

struct Rows {
  Shape outer;      // leading dimensions
  Shape parameter;  // trailing dimensions
  int64_t columns = 1;
};

Rows split_rows(const NodeTypes& node) {
  const Shape& x = node.inputs[0].shape;
  const int64_t dims = read_int(node, "dims", 1);
  if (dims >= x.rank()) {
    refuse(fmt::format("fewer than {} dims", x.rank()), std::to_string(dims),
           "The batch is not normalized over.");
  }
  Rows rows;
  rows.outer = Shape(std::vector<Dim>(x.dims().begin(), x.dims().end() - dims));
  rows.parameter = Shape(std::vector<Dim>(x.dims().end() - dims, x.dims().end()));
  rows.columns = rows.parameter.element_count(1);
  return rows;
}

// Checks operands that begin with `count` values of one type, then the rows' numbers.
Rows expect_rows(const NodeTypes& node, size_t values, size_t count) {
  expect_operands(node, count, count);
  expect_floating(node, 0);
  expect_rank(node, 0, 2, kAnyRank);
  for (size_t i = 1; i < values; ++i) expect_type(node, i, node.inputs[0]);
  return split_rows(node);
}

double elements_of(const NodeTypes& node) {
  return static_cast<double>(node.inputs[0].shape.elements_per_sample());
}

class RmsNorm final : public BatchMapOp {
 public:
  RmsNorm() : BatchMapOp("rms_norm") {}

  std::vector<ValueType> infer(const NodeTypes& node) const override {
    const Rows rows = expect_rows(node, 1, 2);
    read_double(node, "epsilon", 0.0, 1e30);
    const DType dtype = node.inputs[0].dtype;
    expect_type(node, 1, {dtype, rows.parameter});
    return {node.inputs[0], {dtype, rows.outer}};
  }

  std::vector<Alias> aliases(const NodeTypes&) const override { return {{0, 0}}; }

  void gradient(GradientContext& context) const override {
    graph::GraphBuilder& builder = context.builder();
    const Attributes dims{{"dims", context.attributes().get_int("dims")}};
    const std::vector<ValueId> operands = {context.output_gradient(0), context.input(0),
                                           context.output(1)};
    if (context.wants(1)) {
      ValueId sums = builder.call("rms_norm_sums", context.name("grad_scale"), operands, dims);
      const Shape& shape = context.input_type(1).shape;
      if (shape.rank() > 1) {
        sums =
            builder.call("reshape", context.name("grad_scale"), {sums}, {{"shape", shape.at(1)}});
      }
      context.set_gradient(1, sums);
    }
    if (!context.wants(0)) return;
    std::vector<ValueId> all = operands;
    all.push_back(context.input(1));
    context.set_gradient(0, builder.call("rms_norm_grad", context.name("grad"), all, dims));
  }

  double flops_per_sample(const NodeTypes& node) const override { return 5.0 * elements_of(node); }
};

class RmsNormGrad final : public BatchMapOp {
 public:
  RmsNormGrad() : BatchMapOp("rms_norm_grad") {}

  std::vector<ValueType> infer(const NodeTypes& node) const override {
    const Rows rows = expect_rows(node, 2, 4);
    expect_type(node, 2, {node.inputs[0].dtype, rows.outer});
    expect_type(node, 3, {node.inputs[0].dtype, rows.parameter});
    return {node.inputs[0]};
  }

  std::vector<Alias> aliases(const NodeTypes&) const override { return {{0, 0}}; }

  double flops_per_sample(const NodeTypes& node) const override { return 9.0 * elements_of(node); }
};

class RmsNormSums final : public BatchReduceOp {
 public:
  RmsNormSums() : BatchReduceOp("rms_norm_sums") {}

  std::vector<ValueType> infer(const NodeTypes& node) const override {
    const Rows rows = expect_rows(node, 2, 3);
    expect_type(node, 2, {node.inputs[0].dtype, rows.outer});
    return {{node.inputs[0].dtype, Shape{Dim::constant(rows.columns)}}};
  }

  double flops_per_sample(const NodeTypes& node) const override { return 3.0 * elements_of(node); }
};

}  // namespace

void register_rms_norm(OpRegistry& registry) {
  add_op<RmsNorm>(registry);
  add_op<RmsNormGrad>(registry);
  add_op<RmsNormSums>(registry);
}

}  // namespace plimsoll::ops
