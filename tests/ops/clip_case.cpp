#include "ops/cases.h"
#include "ops/literal.h"

namespace plimsoll::ops_test {
namespace {

Dim of(int64_t n) { return Dim::constant(n); }

Case clip(const std::string& kind, double limit) {
  return {.name = "clip_by_" + kind + (limit > 1 ? "_loosely" : ""), .build = [=](CaseBuilder& c) {
            const ValueId g = c.constant("g", {of(3), of(7)});
            std::vector<ValueId> inputs = {g};
            if (kind != "value") {
              inputs.push_back(c.call("sum_squares", {g}, {{"factor", 1.0}}));
            }
            c.call("clip_gradient", inputs, {{"kind", kind}, {"limit", limit}});
          }};
}

Case schedule(const std::string& name, Attributes attributes) {
  return {.name = "scheduled_rate_" + name, .build = [=](CaseBuilder& c) {
            const ValueId step = c.integers("step", Shape(), DType::kInt64, 100);
            c.call("scheduled_rate", {step}, attributes);
          }};
}

Case adam_rows(const std::string& op) {
  return {.name = op, .build = [=](CaseBuilder& c) {
            const Shape table{of(9), of(4)};
            std::vector<ValueId> inputs = {
                c.constant("w", table),
                // Some rows twice, some never, some beyond the table.
                c.integers("ids", {Dim::batch(), of(3)}, DType::kInt32, 11),
                c.constant("dy", {Dim::batch(), of(3), of(4)}), c.constant("m", table),
                c.constant("v", table, Fill::kPositive)};
            if (op == "adam_rows_amsgrad")
              inputs.push_back(c.constant("u", table, Fill::kPositive));
            inputs.push_back(c.constant("lr", Shape(), Fill::kPositive));
            inputs.push_back(c.integers("iterations", Shape(), DType::kInt64, 9));
            c.call(op, inputs,
                   {{"beta_1", 0.9}, {"beta_2", 0.999}, {"epsilon", 1e-7}, {"weight_decay", 0.01}});
          }};
}

// A value that is taken where a sum is finite, and one of a counter.
Case if_finite(const std::string& name, bool counts) {
  return {.name = name, .build = [=](CaseBuilder& c) {
            const ValueId squares = c.constant("squares", Shape(), Fill::kPositive);
            if (counts) {
              const ValueId before = c.integers("before", Shape(), DType::kInt64, 9);
              c.call("if_finite", {c.call("increment", {before}), before, squares});
              return;
            }
            const Shape shape{of(3), of(7)};
            c.call("if_finite", {c.constant("next", shape), c.constant("before", shape), squares});
          }};
}

Case next_loss_scale(const std::string& name, int64_t growth_steps) {
  return {.name = name, .build = [=](CaseBuilder& c) {
            const ValueId steps = c.integers("steps", Shape(), DType::kInt64, 1);
            const ValueId scale = c.constant("scale", Shape(), Fill::kPositive);
            const ValueId squares = c.constant("squares", Shape(), Fill::kPositive);
            c.call("next_loss_scale", {steps, scale, squares}, {{"growth_steps", growth_steps}});
          }};
}

}  // namespace

std::vector<Case> clip_cases() {
  const std::vector<double> boundaries = {10, 60};
  const std::vector<double> values = {0.5, 0.25, 0.125};
  return {
      clip("value", 0.3),
      clip("norm", 0.5),
      clip("norm", 100),
      clip("global", 0.5),
      clip("global", 100),
      schedule("exponential",
               {{"kind", "exponential"}, {"initial", 0.1}, {"steps", 20}, {"rate", 0.9}}),
      schedule("piecewise", {{"kind", "piecewise"},
                             {"boundaries", ops::literal_text(DType::kFloat64, boundaries)},
                             {"values", ops::literal_text(DType::kFloat64, values)}}),
      schedule("polynomial", {{"kind", "polynomial"},
                              {"initial", 0.1},
                              {"steps", 30},
                              {"end", 0.01},
                              {"power", 2},
                              {"cycle", true}}),
      schedule("inverse_time", {{"kind", "inverse_time"},
                                {"initial", 0.1},
                                {"steps", 10},
                                {"rate", 0.5},
                                {"staircase", true}}),
      schedule("cosine", {{"kind", "cosine"},
                          {"initial", 0.1},
                          {"steps", 200},
                          {"warmup_target", 0.3},
                          {"warmup_steps", 5}}),
      schedule("cosine_restarts", {{"kind", "cosine_restarts"}, {"initial", 0.1}, {"steps", 7}}),
      adam_rows("adam_rows"),
      adam_rows("adam_rows_amsgrad"),
      if_finite("if_finite", false),
      if_finite("if_finite_counter", true),
      next_loss_scale("next_loss_scale", 2000),
      next_loss_scale("next_loss_scale_doubled", 1),
  };
}

}  // namespace plimsoll::ops_test
