#include "ops/cases.h"

namespace plimsoll::ops_test {
namespace {

Dim of(int64_t n) { return Dim::constant(n); }

Case dense(const std::string& name, Shape shape, int64_t units, bool bias,
           const std::string& activation) {
  return {.name = name, .build = [=](CaseBuilder& c) {
            const ValueId x = c.input("x", shape);
            const ValueId w = c.input("w", {shape[shape.rank() - 1], of(units)});
            std::vector<ValueId> inputs = {x, w};
            if (bias) inputs.push_back(c.input("b", {of(units)}));
            c.result(c.call("dense", inputs,
                            {{"units", units}, {"use_bias", bias}, {"activation", activation}}));
          }};
}

}  // namespace

std::vector<Case> dense_cases() {
  return {
      dense("dense", {Dim::batch(), of(7)}, 6, false, "linear"),
      dense("dense_bias_relu", {Dim::batch(), of(33)}, 16, true, "relu"),
      dense("dense_one_unit", {Dim::batch(), of(50)}, 1, true, "linear"),
      dense("dense_of_rows", {Dim::batch(), of(3), of(5)}, 9, true, "linear"),
      dense("dense_of_several_rows", {Dim::batch(2), of(6)}, 8, true, "relu"),
      {.name = "dense_transposed",
       .build =
           [](CaseBuilder& c) {
             const ValueId x = c.input("x", {Dim::batch(), of(3), of(7)});
             const ValueId w = c.input("w", {of(9), of(7)});
             c.result(c.call("dense_grad_input", {x, w}, {{"input_dim", 9}}));
           }},
      {.name = "dense_separate_bias",
       .build =
           [](CaseBuilder& c) {
             const ValueId x = c.input("x", {Dim::batch(), of(12)});
             const ValueId w = c.input("w", {of(12), of(10)});
             const ValueId b = c.input("b", {of(10)});
             const ValueId y = c.call("dense", {x, w}, {{"units", 10}});
             c.result(c.call("activation", {c.call("bias_add", {y, b})}, {{"kind", "relu"}}));
           }},
  };
}

}  // namespace plimsoll::ops_test
