// Sparse categorical cross-entropy from logits, cut along the classes (losses.h draws it).
//
//   log_sum_exp                 (B, …, 2): the running maximum and Σ exp(x − maximum), merged over
//                               blocks of classes
//   pick_class                  the label's logit; 0 from a block that does not hold it
//   sparse_crossentropy         max + log(sum) − picked
//   softmax_crossentropy_grad   (exp(x − max) / sum − [class = label]) · d(loss)
//
// The three forward nodes are one function, and its gradient is the one node that pick_class emits
// on behalf of all: it reads what sparse_crossentropy read. sparse_crossentropy hands d(loss) to
// pick_class as it is and nothing to log_sum_exp. That is right only while the three belong
// together, so pick_class refuses any other reader.

#include "ops/register.h"
#include "ops/rules.h"
#include "ops/training/losses.h"

namespace plimsoll::ops {
namespace {

constexpr std::string_view kClassesAxis = "classes";

Axis classes_axis(const NodeTypes& node, AxisKind kind) {
  const Shape& logits = node.inputs[0].shape;
  const int last = logits.rank() - 1;
  Axis axis{.name = std::string(kClassesAxis), .kind = kind, .extent = logits[last]};
  axis.inputs.resize(node.inputs.size());
  axis.inputs[0].dimension = last;
  axis.outputs.resize(1);
  if (kind == AxisKind::kMap) axis.outputs[0].dimension = last;
  return axis;
}

ValueType row_type(const ValueType& logits) { return {logits.dtype, without_last(logits.shape)}; }

ValueType pair_type(ValueType logits) {
  logits.shape[logits.shape.rank() - 1] = Dim::constant(2);
  return logits;
}

void expect_logits(const NodeTypes& node) {
  expect_floating(node, 0);
  expect_rank(node, 0, 2, kAnyRank);
}

void expect_labels(const NodeTypes& node, size_t input) {
  expect_integer(node, input);
  expect_type(node, input, {node.inputs[input].dtype, without_last(node.inputs[0].shape)});
}

class LogSumExp final : public NamedOp {
 public:
  LogSumExp() : NamedOp("log_sum_exp") {}

  std::vector<ValueType> infer(const NodeTypes& node) const override {
    expect_operands(node, 1, 1);
    expect_logits(node);
    return {pair_type(node.inputs[0])};
  }

  std::vector<Axis> axes(const NodeTypes& node) const override {
    std::vector<Axis> axes = graph::batch_map_axis(node);
    axes.push_back(classes_axis(node, AxisKind::kReduce));
    return axes;
  }

  double flops_per_sample(const NodeTypes& node) const override {
    return 16.0 * static_cast<double>(node.inputs[0].shape.elements_per_sample());
  }
};

class PickClass final : public NamedOp {
 public:
  PickClass() : NamedOp("pick_class") {}

  std::vector<ValueType> infer(const NodeTypes& node) const override {
    expect_operands(node, 2, 2);
    expect_logits(node);
    expect_labels(node, 1);
    return {row_type(node.inputs[0])};
  }

  std::vector<Axis> axes(const NodeTypes& node) const override {
    std::vector<Axis> axes = graph::batch_map_axis(node);
    axes.push_back(classes_axis(node, AxisKind::kReduce));
    return axes;
  }

  void gradient(GradientContext& context) const override {
    if (!context.wants(0)) return;
    const graph::Graph& graph = context.builder().graph();
    ValueId lse;
    for (const graph::Node& node : graph.nodes) {
      for (ValueId input : node.inputs) {
        if (input != context.output(0)) continue;
        if (lse.valid() || node.op->name() != "sparse_crossentropy") {
          refuse("sparse_crossentropy as the only reader", "\"" + node.name + "\"",
                 "Build the loss by sparse_crossentropy_from_logits.");
        }
        lse = node.inputs[0];
      }
    }
    context.set_gradient(
        0, context.builder().call(
               "softmax_crossentropy_grad", context.name("grad"),
               {context.input(0), lse, context.input(1), context.output_gradient(0)}));
  }
};

class SparseCrossentropy final : public BatchMapOp {
 public:
  SparseCrossentropy() : BatchMapOp("sparse_crossentropy") {}

  std::vector<ValueType> infer(const NodeTypes& node) const override {
    expect_operands(node, 2, 2);
    expect_floating(node, 0);
    expect_rank(node, 0, 2, kAnyRank);
    expect_type(node, 0, pair_type(node.inputs[0]));
    expect_type(node, 1, row_type(node.inputs[0]));
    return {node.inputs[1]};
  }

  std::vector<Alias> aliases(const NodeTypes&) const override { return {{1, 0}}; }
  OpTraits traits() const override { return {.cheap = true}; }

  void gradient(GradientContext& context) const override {
    if (context.wants(1)) context.set_gradient(1, context.output_gradient(0));
  }
};

class SoftmaxCrossentropyGrad final : public NamedOp {
 public:
  SoftmaxCrossentropyGrad() : NamedOp("softmax_crossentropy_grad") {}

  std::vector<ValueType> infer(const NodeTypes& node) const override {
    expect_operands(node, 4, 4);
    expect_logits(node);
    expect_type(node, 1, pair_type(node.inputs[0]));
    expect_labels(node, 2);
    expect_type(node, 3, row_type(node.inputs[0]));
    return {node.inputs[0]};
  }

  std::vector<Axis> axes(const NodeTypes& node) const override {
    std::vector<Axis> axes = graph::batch_map_axis(node);
    axes.push_back(classes_axis(node, AxisKind::kMap));
    return axes;
  }

  std::vector<Alias> aliases(const NodeTypes&) const override { return {{0, 0}}; }

  double flops_per_sample(const NodeTypes& node) const override {
    return 16.0 * static_cast<double>(node.inputs[0].shape.elements_per_sample());
  }
};

}  // namespace

graph::ValueId sparse_crossentropy_from_logits(graph::GraphBuilder& builder, std::string_view name,
                                               graph::ValueId logits, graph::ValueId labels) {
  const std::string prefix(name);
  const ValueId lse = builder.call("log_sum_exp", prefix + "/log_sum_exp", {logits});
  const ValueId picked = builder.call("pick_class", prefix + "/pick_class", {logits, labels});
  return builder.call("sparse_crossentropy", name, {lse, picked});
}

void register_sparse_crossentropy(OpRegistry& registry) {
  add_op<LogSumExp>(registry);
  add_op<PickClass>(registry);
  add_op<SparseCrossentropy>(registry);
  add_op<SoftmaxCrossentropyGrad>(registry);
}

}  // namespace plimsoll::ops
