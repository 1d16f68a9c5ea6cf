#include "ops/cases.h"

namespace plimsoll::ops_test {
namespace {

Case initializer(const std::string& name, const std::string& op, std::vector<int64_t> shape,
                 Attributes attributes) {
  return {.name = name, .build = [=](CaseBuilder& c) {
            Attributes all = attributes;
            all.set("shape", shape);
            all.set("dtype", std::string(to_string(c.real())));
            c.call(op, {}, all);
          }};
}

}  // namespace

std::vector<Case> initializer_cases() {
  const Attributes normal{{"mean", 1.0}, {"stddev", 0.5}, {"site", 11}};
  const Attributes orthogonal{{"gain", 2.0}, {"site", 13}};
  return {
      initializer("random_uniform", "random_uniform", {7, 9},
                  {{"minval", -0.25}, {"maxval", 0.5}, {"site", 5}}),
      initializer("random_normal", "random_normal", {7, 9}, normal),
      initializer("truncated_normal", "truncated_normal", {7, 9}, normal),
      initializer("constant", "constant", {3, 4}, {{"value", 0.75}}),
      initializer("orthogonal_tall", "orthogonal", {3, 3, 4}, orthogonal),
      initializer("orthogonal_wide", "orthogonal", {4, 9}, orthogonal),
      initializer("identity", "identity", {4, 6}, {{"gain", 3.0}}),
      initializer(
          "fourier_waves", "fourier_waves", {12, 1, 9},
          {{"side", "imag"}, {"window", "hann"}, {"scaling", "density"}, {"periodic", true}}),
      initializer("fourier_waves_plain", "fourier_waves", {7, 1, 5},
                  {{"side", "real"}, {"window", "none"}, {"scaling", "none"}}),
      initializer("zeros", "zeros", {5}, {}),
      initializer("ones", "ones", {5}, {}),
      initializer("ones_scalar", "ones", {}, {}),
  };
}

}  // namespace plimsoll::ops_test
