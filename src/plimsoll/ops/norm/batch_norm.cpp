// BatchNormalization in training, written as reduce and map so that the batch can be cut.
//
//   channel_moments   (B, …, C) → (2, C)    mean, and M2 = Σ (x − mean)²; blocks are merged
//   batch_norm        y = gamma (x − mean) / sqrt(M2 / N + epsilon) + beta,  N = rows of the batch
//   batch_norm_sums   (2, C): Σ dy, Σ dy x̂ — the gradients of beta and gamma
//   batch_norm_grad   dx = gamma / sqrt(…) (dy − Σ dy / N − x̂ Σ dy x̂ / N)
//   take_row          one row of a (2, C) value
//   moving_average    moving * momentum + (mean or M2 / N) * (1 − momentum); where the moments are
//                     those of (step, channel), once for each step, in order
//
// The gradient of the input through the moments is part of batch_norm_grad, so no gradient flows
// into channel_moments.

#include "base/format.h"
#include "ops/norm/channel_steps.h"
#include "ops/register.h"
#include "ops/rules.h"

namespace plimsoll::ops {
namespace {

ValueType channels_type(const ValueType& x) {
  return {wide_dtype(x.dtype), Shape{x.shape[x.shape.rank() - 1]}};
}

ValueType pair_type(const ValueType& x) {
  return {wide_dtype(x.dtype), Shape{Dim::constant(2), x.shape[x.shape.rank() - 1]}};
}

void expect_activations(const NodeTypes& node, size_t input) {
  expect_real(node, input);
  expect_rank(node, input, 2, kAnyRank);
}

class ChannelMoments final : public ImageReduceOp {
 public:
  ChannelMoments() : ImageReduceOp("channel_moments") {}

  std::vector<ValueType> infer(const NodeTypes& node) const override {
    expect_operands(node, 1, 1);
    expect_activations(node, 0);
    return {pair_type(node.inputs[0])};
  }

  OpTraits traits() const override {
    return {.lanes = graph::LaneJoining::kMoments, .bf16 = graph::kFollowsFirst};
  }
  double flops_per_sample(const NodeTypes& node) const override {
    return 4.0 * static_cast<double>(node.inputs[0].shape.elements_per_sample());
  }
};

class BatchNorm final : public ImageMapOp {
 public:
  BatchNorm() : ImageMapOp("batch_norm") {}

  std::vector<ValueType> infer(const NodeTypes& node) const override {
    const bool scale = node.attributes.get_bool("scale", true);
    const bool center = node.attributes.get_bool("center", true);
    const size_t count = 2 + (scale ? 1 : 0) + (center ? 1 : 0);
    expect_operands(node, count, count);
    expect_activations(node, 0);
    read_double(node, "epsilon", 0.0, 1.0);
    const ValueType& x = node.inputs[0];
    expect_type(node, 1, pair_type(x));
    for (size_t i = 2; i < count; ++i) expect_type(node, i, channels_type(x));
    return {x};
  }

  std::vector<Alias> aliases(const NodeTypes&) const override { return {{0, 0}}; }
  OpTraits traits() const override { return {.cheap = true, .bf16 = graph::kFollowsFirst}; }

  void gradient(GradientContext& context) const override {
    graph::GraphBuilder& builder = context.builder();
    const bool scale = context.attributes().get_bool("scale", true);
    const bool center = context.attributes().get_bool("center", true);
    const ValueId dy = context.output_gradient(0);
    const ValueId x = context.input(0);
    const ValueId moments = context.input(1);
    const double epsilon = context.attributes().get_double("epsilon");
    const ValueId sums = builder.call("batch_norm_sums", context.name("sums"), {dy, x, moments},
                                      {{"epsilon", epsilon}});
    if (scale && context.wants(2)) {
      context.set_gradient(
          2, builder.call("take_row", context.name("grad_gamma"), {sums}, {{"row", 1}}));
    }
    const int beta = scale ? 3 : 2;
    if (center && context.wants(beta)) {
      context.set_gradient(
          beta, builder.call("take_row", context.name("grad_beta"), {sums}, {{"row", 0}}));
    }
    if (context.wants(0)) {
      std::vector<ValueId> inputs = {dy, x, moments, sums};
      if (scale) inputs.push_back(context.input(2));
      context.set_gradient(0, builder.call("batch_norm_grad", context.name("grad_input"), inputs,
                                           {{"epsilon", epsilon}, {"scale", scale}}));
    }
  }
};

class BatchNormSums final : public ImageReduceOp {
 public:
  BatchNormSums() : ImageReduceOp("batch_norm_sums") {}

  std::vector<ValueType> infer(const NodeTypes& node) const override {
    expect_operands(node, 3, 3);
    expect_activations(node, 0);
    read_double(node, "epsilon", 0.0, 1.0);
    expect_type(node, 1, node.inputs[0]);
    expect_type(node, 2, pair_type(node.inputs[0]));
    return {pair_type(node.inputs[0])};
  }

  OpTraits traits() const override { return {.sums_for_rows = true}; }
  double flops_per_sample(const NodeTypes& node) const override {
    return 4.0 * static_cast<double>(node.inputs[0].shape.elements_per_sample());
  }
};

class BatchNormGrad final : public ImageMapOp {
 public:
  BatchNormGrad() : ImageMapOp("batch_norm_grad") {}

  std::vector<ValueType> infer(const NodeTypes& node) const override {
    const bool scale = node.attributes.get_bool("scale", true);
    expect_operands(node, scale ? 5 : 4, scale ? 5 : 4);
    expect_activations(node, 0);
    read_double(node, "epsilon", 0.0, 1.0);
    const ValueType& dy = node.inputs[0];
    expect_type(node, 1, dy);
    expect_type(node, 2, pair_type(dy));
    expect_type(node, 3, pair_type(dy));
    if (scale) expect_type(node, 4, channels_type(dy));
    return {dy};
  }

  std::vector<Alias> aliases(const NodeTypes&) const override { return {{0, 0}}; }
};

class TakeRow final : public NamedOp {
 public:
  TakeRow() : NamedOp("take_row") {}

  std::vector<ValueType> infer(const NodeTypes& node) const override {
    expect_operands(node, 1, 1);
    expect_floating(node, 0);
    expect_rank(node, 0, 2, 2);
    const ValueType& m = node.inputs[0];
    const int64_t row = read_int(node, "row", 0);
    if (m.shape.has_batch() || row >= m.shape[0].count) {
      refuse(fmt::format("a row of {}", to_string(m.shape)), std::to_string(row),
             "Check the node's attributes.");
    }
    return {{m.dtype, Shape{m.shape[1]}}};
  }
  OpTraits traits() const override { return {.cheap = true}; }
};

class MovingAverage final : public NamedOp {
 public:
  MovingAverage() : NamedOp("moving_average") {}

  std::vector<ValueType> infer(const NodeTypes& node) const override {
    expect_operands(node, 2, 2);
    expect_floating(node, 0);
    expect_rank(node, 0, 1, 1);
    read_double(node, "momentum", 0.0, 1.0);
    read_double(node, "row", 0, 1);
    read_int(node, "row", 0);
    read_int(node, "elements_per_sample", 1);
    const ValueType& moving = node.inputs[0];
    expect_rank(node, 1, 2, 2);
    const int64_t steps = steps_of(node.inputs[1].shape[1].count, moving.shape[0].count);
    expect_type(
        node, 1,
        {moving.dtype, Shape{Dim::constant(2), Dim::constant(steps * moving.shape[0].count)}});
    return {moving};
  }

  std::vector<Alias> aliases(const NodeTypes&) const override { return {{0, 0}}; }
  OpTraits traits() const override { return {.cheap = true}; }
};

}  // namespace

void register_batch_norm(OpRegistry& registry) {
  add_op<ChannelMoments>(registry);
  add_op<BatchNorm>(registry);
  add_op<BatchNormSums>(registry);
  add_op<BatchNormGrad>(registry);
  add_op<TakeRow>(registry);
  add_op<MovingAverage>(registry);
}

}  // namespace plimsoll::ops
