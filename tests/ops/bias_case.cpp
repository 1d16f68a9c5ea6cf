#include "ops/cases.h"

namespace plimsoll::ops_test {
namespace {

Case bias(const std::string& name, Shape shape) {
  return {.name = name, .build = [=](CaseBuilder& c) {
            const ValueId x = c.input("x", shape);
            const ValueId b = c.input("b", {shape[shape.rank() - 1]});
            c.result(c.call("bias_add", {x, b}));
          }};
}

}  // namespace

std::vector<Case> bias_cases() {
  return {
      bias("bias", {Dim::batch(), Dim::constant(3), Dim::constant(4), Dim::constant(17)}),
      bias("bias_of_one_channel", {Dim::batch(), Dim::constant(6), Dim::constant(1)}),
  };
}

}  // namespace plimsoll::ops_test
