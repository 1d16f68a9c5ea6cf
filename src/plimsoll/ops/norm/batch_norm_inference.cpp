// BatchNormalization with given statistics (evaluation, prediction, frozen layers in training).
//
//   batch_norm_inference        y = gamma (x − mean) / sqrt(variance + epsilon) + beta
//   batch_norm_inference_grad   dx = dy gamma / sqrt(variance + epsilon)
//   batch_norm_inference_sums   (2, C): Σ dy, Σ dy x̂ — the gradients of beta and gamma

#include "ops/register.h"
#include "ops/rules.h"

namespace plimsoll::ops {
namespace {

ValueType channels_type(const ValueType& x) {
  return {wide_dtype(x.dtype), Shape{x.shape[x.shape.rank() - 1]}};
}

void expect_operands_of_channels(const NodeTypes& node, size_t same, size_t count) {
  expect_operands(node, count, count);
  expect_real(node, 0);
  expect_rank(node, 0, 2, kAnyRank);
  read_double(node, "epsilon", 0.0, 1.0);
  for (size_t i = 1; i < count; ++i) {
    expect_type(node, i, i < same ? node.inputs[0] : channels_type(node.inputs[0]));
  }
}

class BatchNormInference final : public ImageMapOp {
 public:
  BatchNormInference() : ImageMapOp("batch_norm_inference") {}

  std::vector<ValueType> infer(const NodeTypes& node) const override {
    const bool scale = node.attributes.get_bool("scale", true);
    const bool center = node.attributes.get_bool("center", true);
    expect_operands_of_channels(node, 1, 3 + (scale ? 1 : 0) + (center ? 1 : 0));
    return {node.inputs[0]};
  }

  std::vector<Alias> aliases(const NodeTypes&) const override { return {{0, 0}}; }
  OpTraits traits() const override { return {.cheap = true, .bf16 = graph::kFollowsFirst}; }

  void gradient(GradientContext& context) const override {
    graph::GraphBuilder& builder = context.builder();
    const bool scale = context.attributes().get_bool("scale", true);
    const bool center = context.attributes().get_bool("center", true);
    const ValueId dy = context.output_gradient(0);
    const double epsilon = context.attributes().get_double("epsilon");
    const int beta = scale ? 4 : 3;
    expect_unwanted(context, 1, "given moving statistics");
    expect_unwanted(context, 2, "given moving statistics");
    const bool wants_gamma = scale && context.wants(3);
    const bool wants_beta = center && context.wants(beta);
    if (wants_gamma || wants_beta) {
      const ValueId sums = builder.call("batch_norm_inference_sums", context.name("sums"),
                                        {dy, context.input(0), context.input(1), context.input(2)},
                                        {{"epsilon", epsilon}});
      if (wants_gamma) {
        context.set_gradient(
            3, builder.call("take_row", context.name("grad_gamma"), {sums}, {{"row", 1}}));
      }
      if (wants_beta) {
        context.set_gradient(
            beta, builder.call("take_row", context.name("grad_beta"), {sums}, {{"row", 0}}));
      }
    }
    if (context.wants(0)) {
      std::vector<ValueId> inputs = {dy, context.input(2)};
      if (scale) inputs.push_back(context.input(3));
      context.set_gradient(0, builder.call("batch_norm_inference_grad", context.name("grad_input"),
                                           inputs, {{"epsilon", epsilon}, {"scale", scale}}));
    }
  }
};

// (dy, variance, gamma?) → dx
class BatchNormInferenceGrad final : public ImageMapOp {
 public:
  BatchNormInferenceGrad() : ImageMapOp("batch_norm_inference_grad") {}

  std::vector<ValueType> infer(const NodeTypes& node) const override {
    expect_operands_of_channels(node, 1, node.attributes.get_bool("scale", true) ? 3 : 2);
    return {node.inputs[0]};
  }

  std::vector<Alias> aliases(const NodeTypes&) const override { return {{0, 0}}; }
  OpTraits traits() const override { return {.cheap = true}; }
};

// (dy, x, mean, variance) → (2, C)
class BatchNormInferenceSums final : public ImageReduceOp {
 public:
  BatchNormInferenceSums() : ImageReduceOp("batch_norm_inference_sums") {}

  std::vector<ValueType> infer(const NodeTypes& node) const override {
    expect_operands_of_channels(node, 2, 4);
    const ValueType& dy = node.inputs[0];
    return {{wide_dtype(dy.dtype), Shape{Dim::constant(2), dy.shape[dy.shape.rank() - 1]}}};
  }

  double flops_per_sample(const NodeTypes& node) const override {
    return 4.0 * static_cast<double>(node.inputs[0].shape.elements_per_sample());
  }
};

}  // namespace

void register_batch_norm_inference(OpRegistry& registry) {
  add_op<BatchNormInference>(registry);
  add_op<BatchNormInferenceGrad>(registry);
  add_op<BatchNormInferenceSums>(registry);
}

}  // namespace plimsoll::ops
