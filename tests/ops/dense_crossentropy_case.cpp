#include "ops/cases.h"

namespace plimsoll::ops_test {
namespace {

Dim of(int64_t n) { return Dim::constant(n); }

struct Head {
  int64_t rows, width, classes;
  bool bias = true;
  DType labels = DType::kInt64;
};

std::vector<ValueId> operands(CaseBuilder& c, const Head& h) {
  std::vector<ValueId> all = {c.input("x", {Dim::batch(), of(h.rows), of(h.width)}),
                              c.input("w", {of(h.width), of(h.classes)})};
  if (h.bias) all.push_back(c.input("b", {of(h.classes)}));
  // Some labels are no classes.
  all.push_back(c.integers("labels", {Dim::batch(), of(h.rows)}, h.labels, h.classes + 1));
  return all;
}

Case fused(const std::string& name, const Head& h) {
  return {.name = name,
          .build =
              [h](CaseBuilder& c) {
                c.result(c.call("dense_crossentropy", operands(c, h), {{"use_bias", h.bias}}));
              },
          .gradient_tolerance = 1e-5,
          .batch = 3};
}

}  // namespace

std::vector<Case> dense_crossentropy_cases() {
  return {
      fused("dense_crossentropy", {.rows = 3, .width = 5, .classes = 11}),
      fused("dense_crossentropy_without_bias",
            {.rows = 1, .width = 17, .classes = 20, .bias = false, .labels = DType::kInt32}),
      // Several chunks of classes, the last one short, and tiles of rows.
      fused("dense_crossentropy_of_chunks", {.rows = 180, .width = 3, .classes = 531}),
      fused("dense_crossentropy_of_long_rows", {.rows = 4, .width = 280, .classes = 530}),
  };
}

}  // namespace plimsoll::ops_test
