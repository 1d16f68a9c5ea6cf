#include "ops/cases.h"

namespace plimsoll::ops_test {
namespace {

Dim of(int64_t n) { return Dim::constant(n); }

Case confusion(const std::string& counts) {
  return {.name = "confusion_count_" + counts, .build = [=](CaseBuilder& c) {
            const Shape shape{Dim::batch(), of(3), of(4)};
            const ValueId t = c.constant("t", shape, Fill::kBinary);
            c.call("confusion_count", {t, c.constant("p", shape, Fill::kProbability)},
                   {{"threshold", 0.4}, {"counts", counts}});
          }};
}

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
      {.name = "confusion_histogram",
       .build =
           [](CaseBuilder& c) {
             const Shape shape{Dim::batch(), of(3), of(4)};
             const ValueId t = c.constant("t", shape, Fill::kBinary);
             c.call("confusion_histogram", {t, c.constant("p", shape, Fill::kProbability)},
                    {{"thresholds", 9}});
           }},
      {.name = "confusion_histogram_weighted",
       .build =
           [](CaseBuilder& c) {
             const Shape shape{Dim::batch(), of(3), of(4)};
             const ValueId t = c.constant("t", shape, Fill::kBinary);
             const ValueId p = c.constant("p", shape, Fill::kProbability);
             const ValueId w = c.constant("w", {Dim::batch(), of(3)}, Fill::kProbability);
             c.call("confusion_histogram", {t, p, w}, {{"thresholds", 9}});
           }},
      confusion("hits"),
      confusion("predicted"),
      confusion("actual"),
  };
}

}  // namespace plimsoll::ops_test
