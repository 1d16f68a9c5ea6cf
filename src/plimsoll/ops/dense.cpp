// dense: y = x · w + bias over the last dimension, and its two gradients.
//
// The axis "units" is the width of w; a cut along it reads some columns of w and makes the same
// columns of y. The gradient of the input sums over it. A packed w has no dimension to cut.

#include "ops/register.h"
#include "ops/rules.h"

namespace plimsoll::ops {
namespace {

constexpr std::string_view kUnitsAxis = "units";

bool packed(const NodeTypes& node) { return node.inputs[1].dtype == DType::kOpaque; }

int last_dimension(const ValueType& type) { return type.shape.rank() - 1; }

double multiply_flops(const ValueType& rows, int64_t inner) {
  return 2.0 * static_cast<double>(rows.shape.elements_per_sample()) * static_cast<double>(inner);
}

class Dense final : public NamedOp {
 public:
  Dense() : NamedOp("dense") {}

  std::vector<ValueType> infer(const NodeTypes& node) const override {
    const bool use_bias = node.attributes.get_bool("use_bias", false);
    expect_operands(node, use_bias ? 3 : 2, use_bias ? 3 : 2);
    expect_real(node, 0);
    expect_rank(node, 0, 2, kAnyRank);
    const int64_t units = read_int(node, "units", 1);
    read_name(node, "activation", "linear", {"linear", "relu"});
    const ValueType& x = node.inputs[0];
    if (!packed(node)) {
      expect_type(node, 1, {x.dtype, Shape{x.shape[last_dimension(x)], Dim::constant(units)}});
    }
    if (use_bias) expect_type(node, 2, {wide_dtype(x.dtype), Shape{Dim::constant(units)}});
    ValueType y = x;
    y.shape[last_dimension(x)] = Dim::constant(units);
    return {y};
  }

  std::vector<Axis> axes(const NodeTypes& node) const override {
    std::vector<Axis> axes = graph::batch_map_axis(node);
    if (packed(node)) return axes;
    Axis units{.name = std::string(kUnitsAxis),
               .kind = AxisKind::kMap,
               .extent = Dim::constant(node.attributes.get_int("units")),
               .inputs = {{}, {.dimension = 1}},
               .outputs = {{.dimension = last_dimension(node.inputs[0])}}};
    if (node.inputs.size() > 2) units.inputs.push_back({.dimension = 0});
    axes.push_back(std::move(units));
    return axes;
  }

  void gradient(GradientContext& context) const override {
    graph::GraphBuilder& builder = context.builder();
    ValueId dy = context.output_gradient(0);
    if (context.attributes().get_string("activation", "linear") == "relu") {
      dy = builder.call("activation_grad", context.name("activation_grad"), {dy, context.output(0)},
                        {{"kind", "relu"}, {"reference", "y"}});
    }
    const bool wants_bias = context.input_count() > 2 && context.wants(2);
    if (context.wants(1)) {
      const graph::NodeId node = builder.add("dense_grad_kernel", context.name("grad_kernel"),
                                             {context.input(0), dy}, {{"use_bias", wants_bias}});
      const std::vector<ValueId> outputs = builder.graph().node(node).outputs;
      context.set_gradient(1, outputs[0]);
      if (wants_bias) context.set_gradient(2, outputs[1]);
    } else if (wants_bias) {
      context.set_gradient(2, builder.call("bias_grad", context.name("bias_grad"), {dy}));
    }
    if (context.wants(0)) {
      const ValueType x = context.input_type(0);
      context.set_gradient(
          0, builder.call("dense_grad_input", context.name("grad_input"), {dy, context.input(1)},
                          {{"input_dim", x.shape[last_dimension(x)].count}}));
    }
  }

  OpTraits traits() const override {
    return {.work = {OpFamily::kDense, OpPass::kForward}, .bf16 = graph::kAsksForFactors};
  }
  double flops_per_sample(const NodeTypes& node) const override {
    return multiply_flops(node.inputs[0], node.attributes.get_int("units"));
  }
};

class DenseGradInput final : public NamedOp {
 public:
  DenseGradInput() : NamedOp("dense_grad_input") {}

  std::vector<ValueType> infer(const NodeTypes& node) const override {
    expect_operands(node, 2, 2);
    expect_real(node, 0);
    expect_rank(node, 0, 2, kAnyRank);
    const ValueType& dy = node.inputs[0];
    const Dim input_dim = Dim::constant(read_int(node, "input_dim", 1));
    if (!packed(node)) {
      expect_type(node, 1, {dy.dtype, Shape{input_dim, dy.shape[last_dimension(dy)]}});
    }
    ValueType dx = dy;
    dx.shape[last_dimension(dy)] = input_dim;
    return {dx};
  }

  std::vector<Axis> axes(const NodeTypes& node) const override {
    std::vector<Axis> axes = graph::batch_map_axis(node);
    if (packed(node)) return axes;
    const ValueType& dy = node.inputs[0];
    axes.push_back({.name = std::string(kUnitsAxis),
                    .kind = AxisKind::kReduce,
                    .extent = dy.shape[last_dimension(dy)],
                    .inputs = {{.dimension = last_dimension(dy)}, {.dimension = 1}},
                    .outputs = {{}}});
    return axes;
  }

  // y = x · wᵀ is a product of its own where a model asks for it.
  void gradient(GradientContext& context) const override {
    graph::GraphBuilder& builder = context.builder();
    const ValueId dy = context.output_gradient(0);
    const ValueType x = context.input_type(0);
    if (context.wants(0)) {
      context.set_gradient(0,
                           builder.call("dense", context.name("grad_left"), {dy, context.input(1)},
                                        {{"units", x.shape[last_dimension(x)].count}}));
    }
    if (!context.wants(1)) return;
    context.set_gradient(
        1, builder.call("dense_grad_kernel", context.name("grad_right"), {dy, context.input(0)}));
  }

  OpTraits traits() const override { return {.work = {OpFamily::kDense, OpPass::kGradInput}}; }
  double flops_per_sample(const NodeTypes& node) const override {
    return multiply_flops(node.inputs[0], node.attributes.get_int("input_dim"));
  }
};

class DenseGradKernel final : public NamedOp {
 public:
  DenseGradKernel() : NamedOp("dense_grad_kernel") {}

  std::vector<ValueType> infer(const NodeTypes& node) const override {
    expect_operands(node, 2, 2);
    expect_real(node, 0);
    expect_rank(node, 0, 2, kAnyRank);
    const ValueType& x = node.inputs[0];
    expect_rank(node, 1, x.shape.rank(), x.shape.rank());
    const Dim units = node.inputs[1].shape[last_dimension(x)];
    ValueType dy = x;
    dy.shape[last_dimension(x)] = units;
    expect_type(node, 1, dy);
    const DType sums = wide_dtype(x.dtype);
    std::vector<ValueType> outputs = {{sums, Shape{x.shape[last_dimension(x)], units}}};
    if (node.attributes.get_bool("use_bias", false)) outputs.push_back({sums, Shape{units}});
    return outputs;
  }

  std::vector<Axis> axes(const NodeTypes& node) const override {
    std::vector<Axis> axes = graph::batch_reduce_axis(node);
    const ValueType& dy = node.inputs[1];
    Axis units{.name = std::string(kUnitsAxis),
               .kind = AxisKind::kMap,
               .extent = dy.shape[last_dimension(dy)],
               .inputs = {{}, {.dimension = last_dimension(dy)}},
               .outputs = {{.dimension = 1}}};
    if (node.outputs.size() > 1) units.outputs.push_back({.dimension = 0});
    axes.push_back(std::move(units));
    return axes;
  }

  OpTraits traits() const override { return {.work = {OpFamily::kDense, OpPass::kGradKernel}}; }
  double flops_per_sample(const NodeTypes& node) const override {
    const ValueType& dy = node.inputs[1];
    return multiply_flops(node.inputs[0], dy.shape[last_dimension(dy)].count);
  }
};

}  // namespace

void register_dense(OpRegistry& registry) {
  add_op<Dense>(registry);
  add_op<DenseGradInput>(registry);
  add_op<DenseGradKernel>(registry);
}

}  // namespace plimsoll::ops
