// dense_crossentropy: a dense layer and the sparse categorical cross-entropy of its results in one
// node, so that logits of many classes never exist.
//
//   dense_crossentropy       (x (B, …, D), w (D, C), bias? (C), labels (B, …)) {use_bias}
//                            → loss (B, …), stats (B, …, 2): the largest logit of a row and
//                              Σ exp(logit − largest)
//   dense_crossentropy_grad  (x, w, bias?, labels, stats, d (B, …)) {use_bias}
//                            → d x, d w, d bias?
//
// Kernels go through the classes in chunks of a fixed size, forward under a running maximum, and
// compute the logits of a chunk again for the gradients: exp(logit − largest) / Σ less one for the
// label, times d. A label that is no class picks nothing. The fuse pass makes these nodes
// (fuse/classifier.h); functions and gradients are those of dense, bias_add and
// sparse_crossentropy_from_logits.

#include "ops/register.h"
#include "ops/rules.h"

namespace plimsoll::ops {
namespace {

Shape pair_shape(const Shape& x) {
  Shape pair = x;
  pair[x.rank() - 1] = Dim::constant(2);
  return pair;
}

// The operands that both nodes begin with; the position of the labels.
size_t check_operands(const NodeTypes& node, size_t after_labels) {
  const size_t labels = node.attributes.get_bool("use_bias", false) ? 3 : 2;
  expect_operands(node, labels + 1 + after_labels, labels + 1 + after_labels);
  expect_floating(node, 0);
  expect_rank(node, 0, 2, kAnyRank);
  expect_rank(node, 1, 2, 2);
  const ValueType& x = node.inputs[0];
  const Dim classes = node.inputs[1].shape[1];
  expect_type(node, 1, {x.dtype, Shape{x.shape[x.shape.rank() - 1], classes}});
  if (labels > 2) expect_type(node, 2, {x.dtype, Shape{classes}});
  expect_integer(node, labels);
  expect_type(node, labels, {node.inputs[labels].dtype, without_last(x.shape)});
  return labels;
}

double product_flops(const NodeTypes& node, double products) {
  return products * 2.0 * static_cast<double>(node.inputs[0].shape.elements_per_sample()) *
         static_cast<double>(node.inputs[1].shape[1].count);
}

class DenseCrossentropy final : public BatchMapOp {
 public:
  DenseCrossentropy() : BatchMapOp("dense_crossentropy") {}

  std::vector<ValueType> infer(const NodeTypes& node) const override {
    check_operands(node, 0);
    const ValueType& x = node.inputs[0];
    return {{x.dtype, without_last(x.shape)}, {x.dtype, pair_shape(x.shape)}};
  }

  void gradient(GradientContext& context) const override {
    const bool bias = context.input_count() > 3;
    std::vector<ValueId> operands;
    for (int i = 0; i < context.input_count(); ++i) operands.push_back(context.input(i));
    operands.push_back(context.output(1));
    operands.push_back(context.output_gradient(0));
    const graph::NodeId node = context.builder().add(
        "dense_crossentropy_grad", context.name("grad"), std::move(operands), context.attributes());
    const std::vector<ValueId> outputs = context.builder().graph().node(node).outputs;
    for (int i = 0; i < (bias ? 3 : 2); ++i) {
      if (context.wants(i)) context.set_gradient(i, outputs[static_cast<size_t>(i)]);
    }
  }

  OpTraits traits() const override {
    return {.work = {OpFamily::kDense, OpPass::kForward, OpFusion::kLoss}};
  }
  double flops_per_sample(const NodeTypes& node) const override { return product_flops(node, 1); }
};

// The gradient of x has rows of the batch, those of w and bias are sums over it.
class DenseCrossentropyGrad final : public BatchReduceOp {
 public:
  DenseCrossentropyGrad() : BatchReduceOp("dense_crossentropy_grad") {}

  std::vector<ValueType> infer(const NodeTypes& node) const override {
    const size_t labels = check_operands(node, 2);
    const ValueType& x = node.inputs[0];
    expect_type(node, labels + 1, {x.dtype, pair_shape(x.shape)});
    expect_type(node, labels + 2, {x.dtype, without_last(x.shape)});
    return {node.inputs.begin(), node.inputs.begin() + static_cast<std::ptrdiff_t>(labels)};
  }

  OpTraits traits() const override {
    return {.work = {OpFamily::kDense, OpPass::kGradients, OpFusion::kLoss}};
  }
  double flops_per_sample(const NodeTypes& node) const override { return product_flops(node, 3); }
};

}  // namespace

void register_dense_crossentropy(OpRegistry& registry) {
  add_op<DenseCrossentropy>(registry);
  add_op<DenseCrossentropyGrad>(registry);
}

}  // namespace plimsoll::ops
