#include "ops/cases.h"

namespace plimsoll::ops_test {
namespace {

Dim of(int64_t n) { return Dim::constant(n); }

// A count of targets, predictions and weights of rows.
Case counts(const std::string& name, const std::string& op, Fill target, Fill prediction,
            Attributes attributes, bool weighted = false) {
  return {.name = name, .build = [=](CaseBuilder& c) {
            const Shape shape{Dim::batch(), of(3), of(4)};
            std::vector<ValueId> operands = {c.constant("t", shape, target),
                                             c.constant("p", shape, prediction)};
            if (weighted) {
              operands.push_back(c.constant("w", {Dim::batch(), of(3)}, Fill::kProbability));
            }
            c.call(op, operands, attributes);
          }};
}

Case correlation(const std::string& op) {
  return {.name = op, .build = [=](CaseBuilder& c) {
            const Shape shape{Dim::batch(), of(2), of(6)};
            c.call(op, {c.constant("p", shape), c.constant("t", shape)});
          }};
}

// 0.25, 0.5 and 0.75 as the bits of float32.
const std::vector<int64_t> kEdges = {0x3E800000, 0x3F000000, 0x3F400000};

}  // namespace

std::vector<Case> accuracy_cases() {
  return {
      {.name = "binary_accuracy",
       .build =
           [](CaseBuilder& c) {
             const Shape shape{Dim::batch(), of(3), of(4)};
             const ValueId t = c.constant("t", shape, Fill::kBinary);
             c.call("binary_accuracy", {t, c.constant("p", shape, Fill::kProbability)},
                    {{"threshold", 0.5}});
           }},
      {.name = "categorical_accuracy",
       .build =
           [](CaseBuilder& c) {
             const Shape shape{Dim::batch(), of(3), of(4)};
             const ValueId t = c.constant("t", shape, Fill::kOneHot);
             c.call("categorical_accuracy", {t, c.constant("p", shape, Fill::kSimplex)});
           }},
      {.name = "sparse_categorical_accuracy",
       .build =
           [](CaseBuilder& c) {
             const ValueId t = c.integers("t", {Dim::batch(), of(3)}, DType::kInt64, 4);
             const ValueId p = c.constant("p", {Dim::batch(), of(3), of(4)}, Fill::kSimplex);
             c.call("sparse_categorical_accuracy", {t, p});
           }},
      {.name = "top_k_categorical_accuracy",
       .build =
           [](CaseBuilder& c) {
             const Shape shape{Dim::batch(), of(3), of(7)};
             const ValueId t = c.constant("t", shape, Fill::kOneHot);
             c.call("top_k_categorical_accuracy", {t, c.constant("p", shape, Fill::kSimplex)},
                    {{"k", 2}});
           }},
      {.name = "sparse_top_k_categorical_accuracy",
       .build =
           [](CaseBuilder& c) {
             const ValueId t = c.integers("t", {Dim::batch(), of(3)}, DType::kInt64, 7);
             const ValueId p = c.constant("p", {Dim::batch(), of(3), of(7)}, Fill::kSimplex);
             c.call("sparse_top_k_categorical_accuracy", {t, p}, {{"k", 3}});
           }},
      counts("confusion_histogram", "confusion_histogram", Fill::kBinary, Fill::kProbability,
             {{"thresholds", 9}}),
      counts("confusion_histogram_weighted", "confusion_histogram", Fill::kBinary,
             Fill::kProbability, {{"thresholds", 9}, {"below", true}}, true),
      counts("confusion_histogram_edges", "confusion_histogram", Fill::kBinary, Fill::kProbability,
             {{"edges", kEdges}}, true),
      counts("confusion_histogram_columns", "confusion_histogram", Fill::kBinary,
             Fill::kProbability, {{"thresholds", 5}, {"columns", true}}, true),
      counts("column_sums_largest", "column_sums", Fill::kOneHot, Fill::kSimplex,
             {{"kind", "hits"}}),
      counts("column_sums_threshold", "column_sums", Fill::kBinary, Fill::kProbability,
             {{"kind", "hits"}, {"threshold", 0.4}}, true),
      counts("column_sums_moments", "column_sums", Fill::kNormal, Fill::kNormal,
             {{"kind", "moments"}}, true),
      counts("class_pairs_largest", "class_pairs", Fill::kOneHot, Fill::kSimplex,
             {{"classes", 4}, {"target", "largest"}, {"prediction", "largest"}}, true),
      counts("class_pairs_above", "class_pairs", Fill::kBinary, Fill::kProbability,
             {{"classes", 2}, {"prediction", "above"}, {"threshold", 0.4}}),
      counts("class_pairs_numbers", "class_pairs", Fill::kBinary, Fill::kBinary,
             {{"classes", 2}, {"prediction", "number"}, {"whole", true}}, true),
      {.name = "class_pairs_of_labels",
       .build =
           [](CaseBuilder& c) {
             const ValueId t = c.integers("t", {Dim::batch(), of(3)}, DType::kInt32, 5);
             const ValueId p = c.constant("p", {Dim::batch(), of(3), of(5)}, Fill::kSimplex);
             c.call("class_pairs", {t, p}, {{"classes", 4}, {"ignored", 1}});
           }},
      counts("equal_share", "equal_share", Fill::kBinary, Fill::kBinary, {}),
      correlation("pearson_correlation"),
      correlation("concordance_correlation"),
      {.name = "keep_top_k",
       .build =
           [](CaseBuilder& c) {
             const ValueId p = c.constant("p", {Dim::batch(), of(3), of(7)}, Fill::kSimplex);
             c.call("keep_top_k", {p}, {{"k", 2}});
           }},
  };
}

}  // namespace plimsoll::ops_test
