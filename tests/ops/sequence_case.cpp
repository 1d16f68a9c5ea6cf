#include "ops/cases.h"
#include "ops/literal.h"

namespace plimsoll::ops_test {
namespace {

Dim of(int64_t n) { return Dim::constant(n); }

Shape steps() { return {Dim::batch(), of(5), of(6)}; }

Case masked(const std::string& name, Shape shape, Shape mask) {
  return {.name = name, .build = [=](CaseBuilder& c) {
            const ValueId x = c.input("x", shape);
            c.result(c.call("apply_mask", {x, c.integers("mask", mask, DType::kBool, 2)}));
          }};
}

Case any_so_far(const std::string& name, bool backwards) {
  return {.name = name, .build = [=](CaseBuilder& c) {
            const ValueId mask = c.integers("mask", {Dim::batch(), of(5)}, DType::kBool, 2);
            c.call("any_so_far", {mask}, {{"go_backwards", backwards}});
          }};
}

Case reverse(int64_t axis) {
  return {.name = "reverse_" + std::to_string(axis), .build = [=](CaseBuilder& c) {
            c.result(c.call("reverse", {c.input("x", steps())}, {{"axis", axis}}));
          }};
}

Case compare(const std::string& kind, DType dtype) {
  return {.name = "compare_" + kind, .build = [=](CaseBuilder& c) {
            const ValueId a = c.integers("a", steps(), dtype, 3);
            const ValueId b = c.integers("b", steps(), dtype, 3);
            const ValueId p = c.call("compare", {a, b}, {{"kind", kind}});
            const ValueId q = c.call("compare", {a}, {{"kind", kind}, {"value", 1.0}});
            const ValueId either = c.call("logical", {p, q}, {{"kind", "or"}});
            const ValueId both = c.call("logical", {p, q}, {{"kind", "and"}});
            const ValueId one = c.call("logical", {either, both}, {{"kind", "xor"}});
            c.call("any_last", {c.call("logical", {one}, {{"kind", "not"}})});
          }};
}

Case broadcast(const std::string& name, Shape from, std::vector<int64_t> to, bool batched) {
  return {.name = name, .build = [=](CaseBuilder& c) {
            const ValueId x = c.input("x", from);
            c.result(c.call("broadcast", {x}, {{"shape", to}, {"batched", batched}}));
          }};
}

Case divide(const std::string& op) {
  return {.name = op, .build = [=](CaseBuilder& c) {
            const ValueId a = c.input("a", steps());
            c.result(c.call(op, {a, c.input("b", steps(), Fill::kPositive)}));
          }};
}

// (5, 6) by (6, 3), either as it is or transposed.
Case product(const std::string& name, bool turned_left, bool turned_right) {
  return {.name = name, .build = [=](CaseBuilder& c) {
            const ValueId a =
                c.input("a", {Dim::batch(), of(turned_left ? 6 : 5), of(turned_left ? 5 : 6)});
            const ValueId b =
                c.input("b", {Dim::batch(), of(turned_right ? 3 : 6), of(turned_right ? 6 : 3)});
            c.result(c.call("batch_matmul", {a, b},
                            {{"transpose_left", turned_left}, {"transpose_right", turned_right}}));
          }};
}

Case unit_length(const std::string& name, int64_t axis) {
  return {.name = name, .build = [=](CaseBuilder& c) {
            const ValueId x = c.input("x", {Dim::batch(), of(4), of(7)});
            c.result(c.call("l2_normalize", {x}, {{"axis", axis}, {"epsilon", 1e-7}}));
          }};
}

// Vectors around and below the length that epsilon stands for.
Case bounded_length() {
  return {.name = "l2_normalize_bounded", .build = [](CaseBuilder& c) {
            const ValueId x = c.input("x", steps());
            c.result(c.call("l2_normalize", {x}, {{"axis", 2}, {"epsilon", 0.999}}));
            const ValueId tiny = c.call("scale_shift", {x}, {{"scale", 0.01}, {"offset", 0.0}});
            c.result(c.call("l2_normalize", {tiny}, {{"axis", 1}, {"epsilon", 0.999}}));
          }};
}

}  // namespace

std::vector<Case> sequence_cases() {
  return {
      masked("apply_mask_to_steps", steps(), {Dim::batch(), of(5)}),
      masked("apply_mask_to_samples", steps(), {Dim::batch()}),
      masked("apply_mask_to_elements", steps(), steps()),
      any_so_far("any_so_far", false),
      any_so_far("any_so_far_backwards", true),
      reverse(1),
      reverse(2),
      {.name = "shift_time_of_nothing",
       .build = [](CaseBuilder& c) { c.call("shift_time", {c.input("x", steps())}); }},
      {.name = "spatial_dropout",
       .build =
           [](CaseBuilder& c) {
             const ValueId x = c.input("x", {Dim::batch(), of(3), of(2), of(7)});
             c.result(c.call("spatial_dropout", {x}, {{"rate", 0.4}, {"site", 3}}));
           }},
      compare("equal", DType::kInt32),
      compare("not_equal", DType::kInt64),
      compare("less", DType::kUInt8),
      compare("less_equal", DType::kInt8),
      compare("greater", DType::kInt32),
      compare("greater_equal", DType::kInt32),
      broadcast("broadcast_steps", {Dim::batch(), of(1), of(6)}, {5, 6}, false),
      broadcast("broadcast_to_the_batch", {of(5), of(6)}, {5, 6}, true),
      broadcast("broadcast_row_to_the_batch", {of(6)}, {5, 6}, true),
      broadcast("broadcast_without_batch", {of(1), of(3)}, {4, 3}, false),
      {.name = "sum_to",
       .build =
           [](CaseBuilder& c) {
             const ValueId x = c.input("x", steps());
             c.result(
                 c.call("sum_to", {x}, {{"shape", std::vector<int64_t>{1, 6}}, {"batched", true}}));
             c.result(c.call("sum_to", {x}, {{"shape", std::vector<int64_t>{6}}}));
           }},
      divide("divide"),
      product("batch_matmul", false, false),
      product("batch_matmul_left_turned", true, false),
      product("batch_matmul_right_turned", false, true),
      product("batch_matmul_both_turned", true, true),
      unit_length("l2_normalize", -1),
      unit_length("l2_normalize_inner", 1),
      bounded_length(),
      divide("divide_no_nan"),
      {.name = "gaussian_noise",
       .build =
           [](CaseBuilder& c) {
             const ValueId x = c.input("x", steps());
             const Attributes draws{{"stddev", 0.5}, {"site", 4}};
             c.result(c.call("gaussian_noise", {x}, draws));
             c.result(c.call("gaussian_scale", {x}, draws));
           }},
      {.name = "fold_batch",
       .build =
           [](CaseBuilder& c) {
             const ValueId rows = c.call("fold_batch", {c.input("x", steps())});
             const ValueId w = c.input("w", {of(6), of(4)});
             const ValueId y = c.call("dense", {rows, w}, {{"units", 4}});
             c.result(c.call("unfold_batch", {y}, {{"steps", 5}}));
           }},
      {.name = "literal",
       .build =
           [](CaseBuilder& c) {
             const std::vector<double> values = {1.5, -0.25, 3.0, 0.0, 7.0, 1e-3};
             const std::string dtype(to_string(c.real()));
             const ValueId x = c.call("literal", {},
                                      {{"shape", std::vector<int64_t>{2, 3}},
                                       {"dtype", dtype},
                                       {"data", ops::literal_text(c.real(), values)}});
             c.result(x);
             const std::vector<double> numbers = {3, -1};
             c.call("literal", {},
                    {{"shape", std::vector<int64_t>{2}},
                     {"dtype", "int64"},
                     {"data", ops::literal_text(DType::kInt64, numbers)}});
           }},
  };
}

}  // namespace plimsoll::ops_test
