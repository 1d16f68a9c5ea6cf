// Cross-entropy over the last dimension, for one-hot targets t and for class numbers.
//
//   logits                  Σ t (log Σ exp(x − max) − (x − max)); its gradient is softmax(x) − t
//   probabilities, one-hot  −Σ t log clip(p / Σ p)
//   probabilities, sparse   softmax cross-entropy of log clip(p), as Keras does
//   circle {gamma, margin, remove_diagonal}   (embeddings (B, D), class numbers (B)) → (B):
//                           softplus of Σ log exp over samples of the same class, and over others,
//                           of gamma times how far their cosine is off the margin; samples of one
//                           batch are compared with each other, so it is never cut
//   generalized {q}         of probabilities and class numbers: (1 − p^q) / q of the label's p

#include "ops/register.h"
#include "ops/training/sample_loss.h"

namespace plimsoll::ops {
namespace {

void expect_circle(const NodeTypes& node, size_t operands) {
  expect_operands(node, operands, operands);
  expect_floating(node, 0);
  expect_rank(node, 0, 2, 2);
  expect_integer(node, 1);
  const ValueType& embeddings = node.inputs[0];
  expect_type(node, 1, {node.inputs[1].dtype, without_last(embeddings.shape)});
  constexpr double kNoBound = 1e300;
  read_double(node, "gamma", 0, kNoBound);
  read_double(node, "margin", 0, kNoBound);
  node.attributes.get_bool("remove_diagonal", true);
}

double pairs_flops(const NodeTypes& node) {
  return 64.0 * static_cast<double>(node.inputs[0].shape.elements_per_sample());
}

class Circle final : public NamedOp {
 public:
  Circle() : NamedOp("circle") {}

  std::vector<ValueType> infer(const NodeTypes& node) const override {
    expect_circle(node, 2);
    return {{node.inputs[0].dtype, without_last(node.inputs[0].shape)}};
  }

  void gradient(GradientContext& context) const override {
    expect_unwanted(context, 1, "the targets of a loss");
    if (!context.wants(0)) return;
    context.set_gradient(
        0, context.builder().call("circle_grad", context.name("grad"),
                                  {context.input(0), context.input(1), context.output_gradient(0)},
                                  context.attributes()));
  }
  double flops_per_sample(const NodeTypes& node) const override { return pairs_flops(node); }
};

// (embeddings, class numbers, d (B)) → d(embeddings)
class CircleGrad final : public NamedOp {
 public:
  CircleGrad() : NamedOp("circle_grad") {}

  std::vector<ValueType> infer(const NodeTypes& node) const override {
    expect_circle(node, 3);
    expect_type(node, 2, {node.inputs[0].dtype, without_last(node.inputs[0].shape)});
    return {node.inputs[0]};
  }
  double flops_per_sample(const NodeTypes& node) const override { return 2 * pairs_flops(node); }
};

}  // namespace

void register_categorical_crossentropy(OpRegistry& registry) {
  add_sample_loss(registry, "categorical_crossentropy_logits",
                  "categorical_crossentropy_logits_grad", TargetKind::kDense, 20.0);
  add_sample_loss(registry, "categorical_crossentropy", "categorical_crossentropy_grad",
                  TargetKind::kDense, 20.0);
  add_sample_loss(registry, "sparse_categorical_crossentropy",
                  "sparse_categorical_crossentropy_grad", TargetKind::kLabels, 36.0);
  add_sample_loss(registry, "generalized_crossentropy", "generalized_crossentropy_grad",
                  TargetKind::kLabels, 2.0, {"q"});
  add_op<Circle>(registry);
  add_op<CircleGrad>(registry);
}

}  // namespace plimsoll::ops
