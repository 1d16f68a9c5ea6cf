// Accuracies per row, without gradients: (target, prediction (B, …, C)) → (B, …), 1 for a hit.
//
//   binary_accuracy               mean over C of [target = (prediction > threshold)]
//   categorical_accuracy          argmax of target = argmax of prediction (the first maximum)
//   sparse_categorical_accuracy   integer label = argmax of prediction
//   top_k_categorical_accuracy {k}          fewer than k predictions are above that of argmax of
//                                           target, and all are finite
//   sparse_top_k_categorical_accuracy {k}   the same of the integer label
//   equal_share                   mean over C of [target = prediction]
//   pearson_correlation           mean of the products of both, each less its mean and divided by
//                                 its deviation
//   concordance_correlation       mean of 2 (t − m(p)) (p − m(p)) / (var t + var p + (m(t) −
//                                 m(p))² + 1e-7), as Keras writes it
//   keep_top_k {k}                (prediction) → (prediction): what is not among the k largest of
//                                 its row, the first of equal ones, is −1e10
//
// And, summed over all rows; each row counts as its weight, or 1:
//
//   confusion_histogram {thresholds}   (target, prediction, weights?) → (2, thresholds): how many
//                                      predictions fall between thresholds i and i + 1 of so many
//                                      that lie evenly from 0 to 1, for targets ≠ 0 and for
//                                      targets 0. With `below` there is one more in front, of
//                                      predictions that are not above the first threshold, and with
//                                      `edges` the thresholds are those numbers, ascending, as the
//                                      bits of float32. With `columns`, (C, 2, …): each apart
//   column_sums {kind}                 (target, prediction, weights?) → (4, C). "hits" {threshold,
//                                      or else the largest of a row that is not 0}: Σ p t, Σ p (1 −
//                                      t), Σ (1 − p) t, Σ t, with p = 1 where it is predicted;
//                                      "moments": Σ t, Σ t², Σ (t − p)², Σ 1
//   class_pairs {classes, target, prediction}   (target, prediction, weights?) → (classes,
//                                      classes): how often a class is taken for which. `target`
//                                      and `prediction` say what is a class: "largest" of a row,
//                                      a "number", whole towards 0, or whether it is at least the
//                                      `threshold` ("above"). Numbers of no class do not count, nor
//                                      targets that are `ignored`; `whole`: nor the fractions of
//                                      weights

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

// (prediction, target) → rows.
class Correlation final : public BatchMapOp {
 public:
  using BatchMapOp::BatchMapOp;

  std::vector<ValueType> infer(const NodeTypes& node) const override {
    expect_alike(node, 2);
    expect_rank(node, 0, 2, kAnyRank);
    return {{node.inputs[0].dtype, without_last(node.inputs[0].shape)}};
  }
  double flops_per_sample(const NodeTypes& node) const override {
    return 12.0 * static_cast<double>(node.inputs[0].shape.elements_per_sample());
  }
};

class KeepTopK final : public BatchMapOp {
 public:
  KeepTopK() : BatchMapOp("keep_top_k") {}

  std::vector<ValueType> infer(const NodeTypes& node) const override {
    expect_operands(node, 1, 1);
    expect_floating(node, 0);
    expect_rank(node, 0, 2, kAnyRank);
    read_int(node, "k", 1);
    return {node.inputs[0]};
  }
  double flops_per_sample(const NodeTypes& node) const override {
    const Shape& shape = node.inputs[0].shape;
    return static_cast<double>(shape.elements_per_sample()) *
           static_cast<double>(shape[shape.rank() - 1].count);
  }
};

// What rows add up to, without a gradient: (target, prediction, weights?).
class RowSums : public BatchReduceOp {
 public:
  using BatchReduceOp::BatchReduceOp;

  OpTraits traits() const override { return {.read_back = true}; }
  double flops_per_sample(const NodeTypes& node) const override {
    return 8.0 * static_cast<double>(node.inputs[1].shape.elements_per_sample());
  }

 protected:
  static void expect_rows(const NodeTypes& node, bool alike) {
    expect_operands(node, 2, 3);
    expect_floating(node, 1);
    expect_rank(node, 1, 2, kAnyRank);
    const ValueType& prediction = node.inputs[1];
    if (alike) {
      expect_type(node, 0, prediction);
    } else {
      expect_integer(node, 0);
      expect_type(node, 0, {node.inputs[0].dtype, without_last(prediction.shape)});
    }
    if (node.inputs.size() > 2) {
      expect_type(node, 2, {prediction.dtype, without_last(prediction.shape)});
    }
  }
  static Dim columns_of(const NodeTypes& node) {
    const Shape& shape = node.inputs[1].shape;
    return Dim::constant(shape[shape.rank() - 1].count);
  }
};

class ConfusionHistogram final : public RowSums {
 public:
  ConfusionHistogram() : RowSums("confusion_histogram") {}

  std::vector<ValueType> infer(const NodeTypes& node) const override {
    expect_rows(node, true);
    int64_t buckets = 0;
    if (node.attributes.has("edges")) {
      buckets = std::ssize(node.attributes.get_ints("edges")) + 1;
    } else {
      buckets =
          read_int(node, "thresholds", 2) + (node.attributes.get_bool("below", false) ? 1 : 0);
    }
    const Dim two = Dim::constant(2);
    const DType dtype = node.inputs[1].dtype;
    if (!node.attributes.get_bool("columns", false)) {
      return {{dtype, Shape{two, Dim::constant(buckets)}}};
    }
    return {{dtype, Shape{columns_of(node), two, Dim::constant(buckets)}}};
  }
};

class ColumnSums final : public RowSums {
 public:
  ColumnSums() : RowSums("column_sums") {}

  std::vector<ValueType> infer(const NodeTypes& node) const override {
    expect_rows(node, true);
    read_name(node, "kind", "hits", {"hits", "moments"});
    node.attributes.get_double("threshold", 0);
    return {{node.inputs[1].dtype, Shape{Dim::constant(4), columns_of(node)}}};
  }
};

class ClassPairs final : public RowSums {
 public:
  ClassPairs() : RowSums("class_pairs") {}

  std::vector<ValueType> infer(const NodeTypes& node) const override {
    const std::string target = read_name(node, "target", "number", {"number", "largest"});
    const std::string prediction =
        read_name(node, "prediction", "largest", {"largest", "number", "above"});
    const bool alike = !node.inputs.empty() && is_floating(node.inputs[0].dtype);
    expect_rows(node, alike);
    const bool rows = prediction == "largest";
    if (alike && rows != (target == "largest")) {
      refuse("classes of rows, or of elements, in target and prediction alike",
             target + " and " + prediction, "Take both from rows, or both from elements.");
    }
    if (!alike && (!rows || target != "number")) {
      refuse("the largest of a row beside targets that are numbers", target + " and " + prediction,
             "Take the prediction's largest.");
    }
    node.attributes.get_int("ignored", 0);
    node.attributes.get_bool("whole", false);
    node.attributes.get_double("threshold", 0);
    const Dim classes = Dim::constant(read_int(node, "classes", 2));
    return {{node.inputs[1].dtype, Shape{classes, classes}}};
  }
};

}  // namespace

void register_accuracy(OpRegistry& registry) {
  add_op<Accuracy>(registry, "binary_accuracy", false);
  add_op<Accuracy>(registry, "categorical_accuracy", false);
  add_op<ClassPairs>(registry);
  add_op<ColumnSums>(registry);
  add_op<Correlation>(registry, "concordance_correlation");
  add_op<ConfusionHistogram>(registry);
  add_op<Accuracy>(registry, "equal_share", false);
  add_op<KeepTopK>(registry);
  add_op<Correlation>(registry, "pearson_correlation");
  add_op<Accuracy>(registry, "sparse_categorical_accuracy", true);
  add_op<Accuracy>(registry, "sparse_top_k_categorical_accuracy", true);
  add_op<Accuracy>(registry, "top_k_categorical_accuracy", false);
}

}  // namespace plimsoll::ops
