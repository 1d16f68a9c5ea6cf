#include "ops/cases.h"

namespace plimsoll::ops_test {
namespace {

Dim of(int64_t n) { return Dim::constant(n); }

Case layer_norm(const std::string& name, Shape shape, int dims, bool scale, bool center) {
  return {
      .name = name, .build = [=](CaseBuilder& c) {
        const Shape parameter(std::vector<Dim>(shape.dims().end() - dims, shape.dims().end()));
        std::vector<ValueId> inputs = {c.input("x", shape)};
        if (scale) inputs.push_back(c.input("gamma", parameter, Fill::kPositive));
        if (center) inputs.push_back(c.input("beta", parameter));
        c.result(c.call("layer_norm", inputs,
                        {{"dims", dims}, {"epsilon", 1e-3}, {"scale", scale}, {"center", center}}));
      }};
}

Case rms_norm(const std::string& name, Shape shape, int dims) {
  return {.name = name, .build = [=](CaseBuilder& c) {
            const Shape parameter(std::vector<Dim>(shape.dims().end() - dims, shape.dims().end()));
            c.result(c.call("rms_norm",
                            {c.input("x", shape), c.input("scale", parameter, Fill::kPositive)},
                            {{"dims", dims}, {"epsilon", 1e-6}}));
          }};
}

}  // namespace

std::vector<Case> layer_norm_cases() {
  return {
      rms_norm("rms_norm", {Dim::batch(), of(3), of(7)}, 1),
      rms_norm("rms_norm_of_two_dimensions", {Dim::batch(), of(3), of(4), of(5)}, 2),
      rms_norm("rms_norm_of_long_rows", {Dim::batch(), of(33)}, 1),
      layer_norm("layer_norm", {Dim::batch(), of(3), of(7)}, 1, true, true),
      layer_norm("layer_norm_of_two_dimensions", {Dim::batch(), of(3), of(4), of(5)}, 2, true,
                 true),
      layer_norm("layer_norm_without_scale", {Dim::batch(), of(33)}, 1, false, true),
      layer_norm("layer_norm_alone", {Dim::batch(), of(2), of(9)}, 1, false, false),
  };
}

}  // namespace plimsoll::ops_test
