#include "ops/cases.h"
#include "ops/losses.h"

namespace plimsoll::ops_test {
namespace {

Dim of(int64_t n) { return Dim::constant(n); }

Case loss(const std::string& name, Fill prediction, Fill target, int64_t length) {
  return {.name = name + "_" + std::to_string(length), .build = [=](CaseBuilder& c) {
            const Shape shape{Dim::batch(), of(2), of(length)};
            const ValueId p = c.input("p", shape, prediction);
            c.result(c.call(name, {p, c.constant("t", shape, target)}));
          }};
}

Case sparse(const std::string& name, DType labels) {
  return {.name = name, .build = [=](CaseBuilder& c) {
            const ValueId p = c.input("p", {Dim::batch(), of(2), of(7)}, Fill::kSimplex);
            const ValueId t = c.integers("t", {Dim::batch(), of(2)}, labels, 7);
            c.result(c.call("sparse_categorical_crossentropy", {p, t}));
          }};
}

Case sparse_logits(const std::string& name, DType labels, int64_t classes) {
  return {.name = name, .build = [=](CaseBuilder& c) {
            const ValueId x = c.input("x", {Dim::batch(), of(3), of(classes)});
            const ValueId t = c.integers("t", {Dim::batch(), of(3)}, labels, classes);
            c.result(ops::sparse_crossentropy_from_logits(c.builder(), "loss", x, t));
          }};
}

}  // namespace

std::vector<Case> loss_cases() {
  return {
      loss("binary_crossentropy_logits", Fill::kNormal, Fill::kBinary, 1),
      loss("binary_crossentropy_logits", Fill::kNormal, Fill::kProbability, 6),
      loss("binary_crossentropy", Fill::kProbability, Fill::kBinary, 1),
      loss("binary_crossentropy", Fill::kProbability, Fill::kProbability, 6),
      loss("categorical_crossentropy_logits", Fill::kNormal, Fill::kOneHot, 10),
      loss("categorical_crossentropy_logits", Fill::kNormal, Fill::kSimplex, 4),
      loss("categorical_crossentropy", Fill::kPositive, Fill::kOneHot, 10),
      loss("categorical_crossentropy", Fill::kSimplex, Fill::kSimplex, 4),
      loss("mean_squared_error", Fill::kNormal, Fill::kNormal, 5),
      loss("mean_absolute_error", Fill::kNormal, Fill::kNormal, 5),
      sparse("sparse_categorical_crossentropy", DType::kInt64),
      sparse("sparse_categorical_crossentropy_of_bytes", DType::kUInt8),
      sparse_logits("sparse_crossentropy", DType::kInt64, 10),
      sparse_logits("sparse_crossentropy_of_int32", DType::kInt32, 33),
  };
}

}  // namespace plimsoll::ops_test
