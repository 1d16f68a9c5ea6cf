#include "ops/activation_kinds.h"
#include "ops/cases.h"

namespace plimsoll::ops_test {
namespace {

Case activation(const std::string& name, Attributes attributes) {
  return {.name = "activation_" + name, .build = [=](CaseBuilder& c) {
            const ValueId x = c.input("x", {Dim::batch(), Dim::constant(3), Dim::constant(37)});
            // Four times as wide, so that every piece is met.
            const ValueId wide = c.call("scale_shift", {x}, {{"scale", 4.0}, {"offset", 0.0}});
            c.result(c.call("activation", {wide}, attributes));
          }};
}

}  // namespace

std::vector<Case> activation_cases() {
  std::vector<Case> cases;
  for (const std::string& kind : ops::activation_names()) {
    if (kind == "threshold") continue;  // has no defaults
    cases.push_back(activation(kind, {{"kind", kind}}));
  }
  cases.push_back(activation("threshold",
                             {{"kind", "threshold"}, {"threshold", 0.5}, {"default_value", -2.0}}));
  cases.push_back(activation("gelu_approximate", {{"kind", "gelu"}, {"approximate", true}}));
  cases.push_back(activation("relu_slope", {{"kind", "relu"}, {"negative_slope", 0.25}}));
  cases.push_back(activation("relu_max", {{"kind", "relu"}, {"max_value", 1.5}}));
  cases.push_back(activation(
      "relu_general",
      {{"kind", "relu"}, {"negative_slope", 0.25}, {"max_value", 2.0}, {"threshold", 0.5}}));
  cases.push_back(activation("relu_low_threshold", {{"kind", "relu"}, {"threshold", -0.5}}));
  cases.push_back(activation("elu_alpha", {{"kind", "elu"}, {"alpha", 0.5}}));
  cases.push_back(activation("celu_alpha", {{"kind", "celu"}, {"alpha", 2.0}}));
  cases.push_back(
      activation("leaky_relu_slope", {{"kind", "leaky_relu"}, {"negative_slope", 0.01}}));
  // Three rows a sample: a sample's bits start at a byte.
  cases.push_back({.name = "activation_relu_of_several_rows", .build = [](CaseBuilder& c) {
                     const ValueId x = c.input("x", {Dim::batch(3), Dim::constant(5)});
                     c.result(c.call("activation", {x}, {{"kind", "relu"}}));
                   }});
  return cases;
}

}  // namespace plimsoll::ops_test
