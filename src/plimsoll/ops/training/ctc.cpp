// Connectionist temporal classification (Graves et al., 2006): minus the log of the probability
// that steps of logits spell a sequence of labels, blanks and repeated classes left out.
//
//   ctc       (logits (B, T, C), labels (B, L)[, label lengths (B), logit lengths (B)])
//             {blank} → (B)
//   ctc_grad  (…, d(B)) → d(logits): softmax(logits) less the probability that a step is of a
//             class, on the paths that spell the labels
//
// Labels and lengths are integers. Without lengths, a row of labels is as long as it has labels
// that are not the blank, as Keras's loss counts, and all T steps are read. One sample's states are
// its labels with a blank around each, 2 L + 1; sums over paths are taken forward and backward, in
// logarithms. Where no path spells the labels, the loss is about 707, as TensorFlow has it: a path
// that ends in another state weighs 1e-307.

#include "ops/register.h"
#include "ops/rules.h"

namespace plimsoll::ops {
namespace {

void expect_lengths(const NodeTypes& node, size_t input) {
  expect_integer(node, input);
  expect_type(node, input, {node.inputs[input].dtype, Shape{node.inputs[0].shape[0]}});
}

// Returns whether lengths are given. `more`: operands after them.
bool expect_sequences(const NodeTypes& node, size_t more) {
  expect_operands(node, 2 + more, 4 + more);
  expect_floating(node, 0);
  expect_rank(node, 0, 3, 3);
  expect_integer(node, 1);
  expect_rank(node, 1, 2, 2);
  const Shape& logits = node.inputs[0].shape;
  if (!logits.has_batch() || node.inputs[1].shape[0] != logits[0]) {
    refuse("a row of labels for each sample", to_string(node.inputs[1].shape), "Check its shape.");
  }
  const int64_t blank = read_int(node, "blank", 0);
  if (blank >= logits[2].count) {
    refuse("a blank below " + std::to_string(logits[2].count), std::to_string(blank),
           "Name one of the classes.");
  }
  const bool lengths = node.inputs.size() == 4 + more;
  if (!lengths && node.inputs.size() != 2 + more) {
    refuse("lengths of labels and of logits, or none", "one of them", "Check the node's operands.");
  }
  for (size_t i = 2; lengths && i < 4; ++i) expect_lengths(node, i);
  return lengths;
}

// An exponential and a logarithm for each state and each class of a step.
double path_flops(const NodeTypes& node) {
  const auto steps = static_cast<double>(node.inputs[0].shape[1].count);
  const auto classes = static_cast<double>(node.inputs[0].shape[2].count);
  const auto states = 2 * static_cast<double>(node.inputs[1].shape[1].count) + 1;
  return steps * (20 * classes + 80 * states);
}

class Ctc final : public BatchMapOp {
 public:
  Ctc() : BatchMapOp("ctc") {}

  std::vector<ValueType> infer(const NodeTypes& node) const override {
    expect_sequences(node, 0);
    return {{node.inputs[0].dtype, Shape{node.inputs[0].shape[0]}}};
  }

  void gradient(GradientContext& context) const override {
    const int operands = context.input_count();
    for (int i = 1; i < operands; ++i) expect_unwanted(context, i, "the labels of a loss");
    if (!context.wants(0)) return;
    std::vector<ValueId> inputs;
    inputs.reserve(static_cast<size_t>(operands) + 1);
    for (int i = 0; i < operands; ++i) inputs.push_back(context.input(i));
    inputs.push_back(context.output_gradient(0));
    context.set_gradient(
        0, context.builder().call("ctc_grad", context.name("grad"), inputs, context.attributes()));
  }

  double flops_per_sample(const NodeTypes& node) const override { return path_flops(node); }
};

class CtcGrad final : public BatchMapOp {
 public:
  CtcGrad() : BatchMapOp("ctc_grad") {}

  std::vector<ValueType> infer(const NodeTypes& node) const override {
    expect_sequences(node, 1);
    expect_type(node, node.inputs.size() - 1,
                {node.inputs[0].dtype, Shape{node.inputs[0].shape[0]}});
    return {node.inputs[0]};
  }

  double flops_per_sample(const NodeTypes& node) const override { return 3 * path_flops(node); }
};

}  // namespace

void register_ctc(OpRegistry& registry) {
  add_op<Ctc>(registry);
  add_op<CtcGrad>(registry);
}

}  // namespace plimsoll::ops
