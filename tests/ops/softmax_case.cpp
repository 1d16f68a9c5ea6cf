#include "ops/cases.h"

namespace plimsoll::ops_test {
namespace {

Case unary(const std::string& name, const std::string& op, Attributes attributes = {}) {
  return {.name = name, .build = [=](CaseBuilder& c) {
            const ValueId x = c.input("x", {Dim::batch(), Dim::constant(3), Dim::constant(10)});
            c.result(c.call(op, {x}, attributes));
          }};
}

}  // namespace

std::vector<Case> softmax_cases() {
  return {
      unary("softmax", "softmax", {{"axis", -1}}),
      unary("log_softmax", "log_softmax"),
      unary("glu", "glu"),
      {.name = "glu_of_an_inner_axis",
       .build =
           [](CaseBuilder& c) {
             const ValueId x = c.input("x", {Dim::batch(), Dim::constant(4), Dim::constant(3)});
             c.result(c.call("glu", {x}, {{"axis", 1}}));
           }},
  };
}

}  // namespace plimsoll::ops_test
