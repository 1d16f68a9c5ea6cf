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

// The function is defined from 1 on.
Case shifted(const std::string& kind) {
  return {.name = "unary_" + kind, .build = [=](CaseBuilder& c) {
            const ValueId x = c.call("scale_shift", {c.input("x", steps(), Fill::kPositive)},
                                     {{"scale", 1.0}, {"offset", 1.0}});
            c.result(c.call("unary", {x}, {{"kind", kind}}));
          }};
}

Case binary(const std::string& kind, bool smooth = true) {
  return {.name = "binary_" + kind, .build = [=](CaseBuilder& c) {
            const ValueId a = c.input("a", steps(), Fill::kPositive);
            const ValueId b = c.input("b", steps(), Fill::kPositive);
            const ValueId y = c.call("binary", {a, b}, {{"kind", kind}});
            if (smooth) c.result(y);
          }};
}

Case row_op(const std::string& op, Attributes attributes) {
  return {.name = op + (attributes.has("reverse") ? "_back" : ""), .build = [=](CaseBuilder& c) {
            c.result(c.call(op, {c.input("x", steps(), Fill::kPositive)}, attributes));
          }};
}

// The results are integers, which have no gradient.
Case numbered(const std::string& op, Attributes attributes) {
  std::string name = op + (attributes.has("descending") ? "_down" : "");
  if (attributes.has("of")) name += "_" + attributes.get_string("of");
  return {.name = name,
          .build = [=](CaseBuilder& c) { c.call(op, {c.constant("x", steps())}, attributes); }};
}

Case numbers_in_order() {
  return {.name = "argsort_last_integers", .build = [=](CaseBuilder& c) {
            c.call("argsort_last", {c.integers("x", steps(), DType::kInt32, 7)}, {});
          }};
}

Case stop_gradient() {
  return {.name = "stop_gradient", .build = [=](CaseBuilder& c) {
            const ValueId x = c.input("x", steps(), Fill::kPositive);
            const ValueId k = c.constant("k", steps(), Fill::kPositive);
            c.result(c.call("multiply", {x, c.call("stop_gradient", {k})}));
          }};
}

Case gather() {
  return {.name = "gather_last", .build = [=](CaseBuilder& c) {
            const ValueId x = c.input("x", steps());
            const ValueId at = c.integers("at", {Dim::batch(), of(5), of(4)}, DType::kInt32, 6);
            c.result(c.call("gather_last", {x, at}));
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
      unary("arccos", Fill::kProbability),
      shifted("arccosh"),
      unary("arcsin", Fill::kProbability),
      unary("arcsinh", Fill::kNormal),
      unary("arctan", Fill::kNormal),
      unary("arctanh", Fill::kProbability),
      unary("cbrt", Fill::kPositive),
      unary("cosh", Fill::kNormal),
      unary("erf", Fill::kNormal),
      unary("erfc", Fill::kNormal),
      unary("erfinv", Fill::kProbability),
      unary("exp2", Fill::kNormal),
      unary("i0", Fill::kNormal),
      unary("log10", Fill::kPositive),
      unary("log2", Fill::kPositive),
      unary("sinc", Fill::kNormal),
      unary("sinh", Fill::kNormal),
      unary("tan", Fill::kProbability),
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
      stepped("trunc"),
      binary("arctan2"),
      binary("floor_divide", false),
      binary("floor_mod"),
      binary("fmod"),
      binary("hypot"),
      binary("logaddexp"),
      binary("logaddexp2"),
      binary("power"),
      row_op("running_sum", {{"axis", -1}}),
      row_op("running_sum", {{"axis", 1}, {"reverse", true}}),
      row_op("product_last", {}),
      gather(),
      numbered("argsort_last", {}),
      numbers_in_order(),
      numbered("argsort_last", {{"descending", true}}),
      numbered("arg_extremum_last", {{"of", "maximum"}}),
      numbered("arg_extremum_last", {{"of", "minimum"}}),
      stop_gradient(),
      select("select_steps", {Dim::batch(), of(5)}),
      select("select_elements", steps()),
      extremum_last("maximum"),
      extremum_last("minimum"),
  };
}

}  // namespace plimsoll::ops_test
