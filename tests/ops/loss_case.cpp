#include "ops/cases.h"
#include "ops/training/losses.h"

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

// With attributes; several of one operator have names of their own.
Case loss_with(const std::string& name, const std::string& op, Fill prediction, Fill target,
               Attributes attributes) {
  return {.name = name, .build = [=](CaseBuilder& c) {
            const Shape shape{Dim::batch(), of(2), of(6)};
            const ValueId p = c.input("p", shape, prediction);
            c.result(c.call(op, {p, c.constant("t", shape, target)}, attributes));
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

// Labels are never the blank, which is the last class; steps suffice for labels that repeat.
Case ctc(const std::string& name, DType labels, bool lengths) {
  return {
      .name = name, .build = [=](CaseBuilder& c) {
        const ValueId z = c.input("z", {Dim::batch(), of(7), of(5)});
        const ValueId t = c.integers("t", {Dim::batch(), of(3)}, labels, 4);
        std::vector<ValueId> operands = {z, t};
        if (lengths) {
          operands.push_back(c.integers("label_lengths", {Dim::batch()}, DType::kInt32, 4));
          // 5 or more steps.
          const ValueId more = c.integers("more", {Dim::batch()}, DType::kInt32, 3);
          const ValueId real = c.call("cast", {more}, {{"dtype", "float32"}});
          const ValueId steps = c.call("scale_shift", {real}, {{"scale", 1.0}, {"offset", 5.0}});
          operands.push_back(c.call("cast", {steps}, {{"dtype", "int32"}}));
        }
        c.result(c.call("ctc", operands, {{"blank", int64_t{4}}}));
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
      loss("mean_absolute_percentage_error", Fill::kNormal, Fill::kPositive, 5),
      loss("mean_squared_logarithmic_error", Fill::kPositive, Fill::kPositive, 5),
      loss_with("huber", "huber", Fill::kNormal, Fill::kNormal, {{"delta", 0.8}}),
      loss("log_cosh", Fill::kNormal, Fill::kNormal, 5),
      loss("hinge", Fill::kNormal, Fill::kBinary, 5),
      loss("squared_hinge", Fill::kNormal, Fill::kBinary, 5),
      loss("categorical_hinge", Fill::kNormal, Fill::kOneHot, 6),
      loss("kl_divergence", Fill::kSimplex, Fill::kSimplex, 6),
      loss("poisson", Fill::kPositive, Fill::kPositive, 5),
      loss("cosine_similarity", Fill::kNormal, Fill::kNormal, 7),
      loss_with("binary_focal", "binary_focal_crossentropy", Fill::kProbability, Fill::kBinary,
                {{"alpha", 0.25}, {"gamma", 2.0}}),
      loss_with("binary_focal_balanced", "binary_focal_crossentropy", Fill::kProbability,
                Fill::kProbability,
                {{"alpha", 0.3}, {"gamma", 1.5}, {"apply_class_balancing", true}}),
      loss_with("binary_focal_logits", "binary_focal_crossentropy_logits", Fill::kNormal,
                Fill::kBinary, {{"alpha", 0.3}, {"gamma", 2.0}, {"apply_class_balancing", true}}),
      loss_with("categorical_focal", "categorical_focal_crossentropy", Fill::kPositive,
                Fill::kOneHot, {{"alpha", 0.25}, {"gamma", 2.0}}),
      {.name = "generalized_crossentropy",
       .build =
           [](CaseBuilder& c) {
             const ValueId p = c.input("p", {Dim::batch(), of(2), of(7)}, Fill::kSimplex);
             const ValueId t = c.integers("t", {Dim::batch(), of(2)}, DType::kInt32, 7);
             c.result(c.call("generalized_crossentropy", {p, t}, {{"q", 0.7}}));
           }},
      {.name = "circle",
       .build =
           [](CaseBuilder& c) {
             const ValueId p = c.input("p", {Dim::batch(), of(5)}, Fill::kSimplex);
             const ValueId t = c.integers("t", {Dim::batch()}, DType::kInt32, 3);
             c.result(c.call("circle", {p, t},
                             {{"gamma", 2.0}, {"margin", 0.3}, {"remove_diagonal", true}}));
           }},
      ctc("ctc", DType::kInt32, false),
      ctc("ctc_with_lengths", DType::kInt64, true),
      sparse("sparse_categorical_crossentropy", DType::kInt64),
      sparse("sparse_categorical_crossentropy_of_bytes", DType::kUInt8),
      sparse_logits("sparse_crossentropy", DType::kInt64, 10),
      sparse_logits("sparse_crossentropy_of_int32", DType::kInt32, 33),
  };
}

}  // namespace plimsoll::ops_test
