// Accuracies per row, without gradients: (target, prediction (B, …, C)) → (B, …), 1 for a hit.
//
//   binary_accuracy               mean over C of [target = (prediction > threshold)]
//   categorical_accuracy          argmax of target = argmax of prediction (the first maximum)
//   sparse_categorical_accuracy   integer label = argmax of prediction
//   top_k_categorical_accuracy {k}          fewer than k predictions are above that of argmax of
//                                           target, and all are finite
//   sparse_top_k_categorical_accuracy {k}   the same of the integer label
//   confusion_count {threshold, counts}     how many of C are "hits" (target ≠ 0 and prediction >
//                                           threshold), "predicted" (the latter) or "actual"
//
// And, summed over all rows:
//
//   confusion_histogram {thresholds}   (target, prediction, weights?) → (2, thresholds): how many
//                                      predictions fall between thresholds i and i + 1 of so many
//                                      that lie evenly from 0 to 1, for targets ≠ 0 and for
//                                      targets 0; each counts as the weight of its row, or 1

#include "ops/register.h"
#include "ops/rules.h"

namespace plimsoll::ops {
namespace {

class Accuracy final : public BatchMapOp {
 public:
  Accuracy(std::string_view name, bool labels) : BatchMapOp(name), labels_(labels) {}

  std::vector<ValueType> infer(const NodeTypes& node) const override {
    expect_operands(node, 2, 2);
    expect_floating(node, 1);
    expect_rank(node, 1, 2, kAnyRank);
    const ValueType& prediction = node.inputs[1];
    node.attributes.get_double("threshold", 0.5);
    if (name().find("top_k") != std::string_view::npos) read_int(node, "k", 1);
    if (name() == "confusion_count") {
      read_name(node, "counts", "hits", {"hits", "predicted", "actual"});
    }
    if (labels_) {
      expect_integer(node, 0);
      expect_type(node, 0, {node.inputs[0].dtype, without_last(prediction.shape)});
    } else {
      expect_type(node, 0, prediction);
    }
    return {{prediction.dtype, without_last(prediction.shape)}};
  }

  double flops_per_sample(const NodeTypes& node) const override {
    return 2.0 * static_cast<double>(node.inputs[1].shape.elements_per_sample());
  }

 private:
  bool labels_;
};

class ConfusionHistogram final : public BatchReduceOp {
 public:
  ConfusionHistogram() : BatchReduceOp("confusion_histogram") {}

  std::vector<ValueType> infer(const NodeTypes& node) const override {
    expect_operands(node, 2, 3);
    expect_floating(node, 1);
    expect_rank(node, 1, 2, kAnyRank);
    expect_type(node, 0, node.inputs[1]);
    if (node.inputs.size() > 2) {
      expect_type(node, 2, {node.inputs[1].dtype, without_last(node.inputs[1].shape)});
    }
    const int64_t thresholds = read_int(node, "thresholds", 2);
    return {{node.inputs[1].dtype, Shape{Dim::constant(2), Dim::constant(thresholds)}}};
  }

  OpTraits traits() const override { return {.read_back = true}; }
  double flops_per_sample(const NodeTypes& node) const override {
    return 4.0 * static_cast<double>(node.inputs[1].shape.elements_per_sample());
  }
};

}  // namespace

void register_accuracy(OpRegistry& registry) {
  add_op<Accuracy>(registry, "binary_accuracy", false);
  add_op<Accuracy>(registry, "categorical_accuracy", false);
  add_op<Accuracy>(registry, "confusion_count", false);
  add_op<ConfusionHistogram>(registry);
  add_op<Accuracy>(registry, "sparse_categorical_accuracy", true);
  add_op<Accuracy>(registry, "sparse_top_k_categorical_accuracy", true);
  add_op<Accuracy>(registry, "top_k_categorical_accuracy", false);
}

}  // namespace plimsoll::ops
