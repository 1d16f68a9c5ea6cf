// BatchNormalization in training by the statistics of groups of samples instead of the whole
// batch's: what Keras computes when it accumulates gradients over smaller batches.
//
//   batch_norm_groups       y = gamma (x − mean) / sqrt(variance + epsilon) + beta
//   batch_norm_groups_grad  dx, and (2, C): Σ dy, Σ dy x̂ over the batch, the gradients of beta and
//                           gamma
//   moving_moments          moving * momentum + (mean or variance) * (1 − momentum), once for each
//                           group, in their order; where the channels are (step, channel), once
//                           for each step of a group
//
// Attribute `group`: so many consecutive samples from the start of the batch are a group, the last
// one is the rest. A block of the batch axis is exactly one group (op.h), so that a call has all
// that it needs: no statistic is ever kept, the gradient computes them again. The gradient of the
// input through them is part of batch_norm_groups_grad.

#include "ops/norm/channel_steps.h"
#include "ops/register.h"
#include "ops/rules.h"

namespace plimsoll::ops {
namespace {

ValueType channels_type(const ValueType& x) {
  return {wide_dtype(x.dtype), Shape{x.shape[x.shape.rank() - 1]}};
}

void check_rows(const NodeTypes& node) {
  expect_real(node, 0);
  expect_rank(node, 0, 2, kAnyRank);
  if (!node.inputs[0].shape.has_batch()) {
    refuse("a value of the batch, which has groups", to_string(node.inputs[0].shape),
           "Use batch_norm.");
  }
  read_int(node, "group", 1);
}

std::vector<Axis> in_groups(std::vector<Axis> axes, const NodeTypes& node) {
  for (Axis& axis : axes) axis.group = read_int(node, "group", 1);
  return axes;
}

class BatchNormGroups final : public NamedOp {
 public:
  BatchNormGroups() : NamedOp("batch_norm_groups") {}

  std::vector<ValueType> infer(const NodeTypes& node) const override {
    const bool scale = node.attributes.get_bool("scale", true);
    const bool center = node.attributes.get_bool("center", true);
    const size_t count = 1 + (scale ? 1 : 0) + (center ? 1 : 0);
    expect_operands(node, count, count);
    check_rows(node);
    read_double(node, "epsilon", 0.0, 1.0);
    for (size_t i = 1; i < count; ++i) expect_type(node, i, channels_type(node.inputs[0]));
    return {node.inputs[0]};
  }

  std::vector<Axis> axes(const NodeTypes& node) const override {
    return in_groups(graph::batch_map_axis(node), node);
  }
  std::vector<Alias> aliases(const NodeTypes&) const override { return {{0, 0}}; }
  OpTraits traits() const override { return {.cheap = true, .bf16 = graph::kFollowsFirst}; }
  double flops_per_sample(const NodeTypes& node) const override {
    return 6.0 * static_cast<double>(node.inputs[0].shape.elements_per_sample());
  }

  void gradient(GradientContext& context) const override {
    graph::GraphBuilder& builder = context.builder();
    const Attributes& attributes = context.attributes();
    const bool scale = attributes.get_bool("scale", true);
    std::vector<ValueId> inputs = {context.output_gradient(0), context.input(0)};
    if (scale) inputs.push_back(context.input(1));
    const graph::NodeId node =
        builder.add("batch_norm_groups_grad", context.name("grad"), std::move(inputs),
                    {{"epsilon", attributes.get_double("epsilon")},
                     {"group", attributes.get_int("group")},
                     {"scale", scale}});
    const std::vector<ValueId> outputs = builder.graph().node(node).outputs;
    if (context.wants(0)) context.set_gradient(0, outputs[0]);
    const auto take = [&](int input, std::string_view name, int64_t row) {
      if (!context.wants(input)) return;
      context.set_gradient(
          input, builder.call("take_row", context.name(name), {outputs[1]}, {{"row", row}}));
    };
    if (scale) take(1, "grad_gamma", 1);
    if (attributes.get_bool("center", true)) take(scale ? 2 : 1, "grad_beta", 0);
  }
};

// The gradient of x has rows of the batch, the sums are over it.
class BatchNormGroupsGrad final : public NamedOp {
 public:
  BatchNormGroupsGrad() : NamedOp("batch_norm_groups_grad") {}

  std::vector<ValueType> infer(const NodeTypes& node) const override {
    const bool scale = node.attributes.get_bool("scale", true);
    expect_operands(node, scale ? 3 : 2, scale ? 3 : 2);
    check_rows(node);
    read_double(node, "epsilon", 0.0, 1.0);
    const ValueType& dy = node.inputs[0];
    expect_type(node, 1, dy);
    const ValueType channels = channels_type(dy);
    if (scale) expect_type(node, 2, channels);
    return {dy, {channels.dtype, Shape{Dim::constant(2), channels.shape[0]}}};
  }

  std::vector<Axis> axes(const NodeTypes& node) const override {
    return in_groups(graph::batch_reduce_axis(node), node);
  }
  std::vector<Alias> aliases(const NodeTypes&) const override { return {{0, 0}}; }
  double flops_per_sample(const NodeTypes& node) const override {
    return 13.0 * static_cast<double>(node.inputs[0].shape.elements_per_sample());
  }
};

class MovingMoments final : public NamedOp {
 public:
  MovingMoments() : NamedOp("moving_moments") {}

  std::vector<ValueType> infer(const NodeTypes& node) const override {
    expect_operands(node, 3, 3);
    check_rows(node);
    read_double(node, "momentum", 0.0, 1.0);
    expect_rank(node, 1, 1, 1);
    const ValueType channels = channels_type(node.inputs[0]);
    const ValueType& moving = node.inputs[1];
    steps_of(channels.shape[0].count, moving.shape[0].count);
    expect_type(node, 1, {channels.dtype, moving.shape});
    expect_type(node, 2, moving);
    return {moving, moving};
  }

  std::vector<Axis> axes(const NodeTypes& node) const override {
    return in_groups(graph::batch_reduce_axis(node), node);
  }
  OpTraits traits() const override { return {.bf16 = graph::kFollowsFirst}; }
  double flops_per_sample(const NodeTypes& node) const override {
    return 4.0 * static_cast<double>(node.inputs[0].shape.elements_per_sample());
  }
};

}  // namespace

void register_batch_norm_groups(OpRegistry& registry) {
  add_op<BatchNormGroups>(registry);
  add_op<BatchNormGroupsGrad>(registry);
  add_op<MovingMoments>(registry);
}

}  // namespace plimsoll::ops
