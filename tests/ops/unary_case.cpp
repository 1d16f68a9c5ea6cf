#include "ops/cases.h"

namespace plimsoll::ops_test {
namespace {

Dim of(int64_t n) { return Dim::constant(n); }

Shape steps() { return {Dim::batch(), of(5), of(6)}; }

Case unary(const std::string& kind, Fill fill, Attributes attributes = {}) {
  return {.name = "unary_" + kind, .build = [=](CaseBuilder& c) {
            Attributes all = attributes;
            all.set("kind", kind);
            c.result(c.call("unary", {c.input("x", steps(), fill)}, all));
          }};
}

// Steps of a function have no slope that differences could show: values only.
Case stepped(const std::string& kind) {
  return {.name = "unary_" + kind, .build = [=](CaseBuilder& c) {
            c.call("unary", {c.constant("x", steps())}, {{"kind", kind}});
          }};
}

Case select(const std::string& name, Shape mask) {
  return {.name = name, .build = [=](CaseBuilder& c) {
            const ValueId a = c.input("a", steps());
            const ValueId b = c.input("b", steps());
            const ValueId m = c.integers("mask", mask, DType::kBool, 2);
            c.result(c.call("select", {a, b, m}));
          }};
}

Case extremum_last(const std::string& of_what) {
  return {.name = "extremum_last_" + of_what, .build = [=](CaseBuilder& c) {
            c.result(c.call("extremum_last", {c.input("x", steps())}, {{"of", of_what}}));
          }};
}

}  // namespace

std::vector<Case> unary_cases() {
  return {
      unary("abs", Fill::kPositive),
      unary("cos", Fill::kNormal),
      unary("expm1", Fill::kNormal),
      unary("log", Fill::kPositive),
      unary("log1p", Fill::kPositive),
      unary("power", Fill::kPositive, {{"exponent", 2.5}}),
      unary("reciprocal", Fill::kPositive),
      unary("rsqrt", Fill::kPositive),
      unary("sin", Fill::kNormal),
      unary("sqrt", Fill::kPositive),
      stepped("ceil"),
      stepped("floor"),
      stepped("round"),
      stepped("sign"),
      select("select_steps", {Dim::batch(), of(5)}),
      select("select_elements", steps()),
      extremum_last("maximum"),
      extremum_last("minimum"),
  };
}

}  // namespace plimsoll::ops_test
