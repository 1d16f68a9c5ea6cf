#include "ops/cases.h"

namespace plimsoll::ops_test {
namespace {

Dim of(int64_t n) { return Dim::constant(n); }

Case regularizer(const std::string& op) {
  return {.name = op, .build = [=](CaseBuilder& c) {
            c.result(c.call(op, {c.input("w", {of(4), of(9)})}, {{"factor", 0.01}}));
          }};
}

}  // namespace

std::vector<Case> sum_cases() {
  return {
      {.name = "batch_sum",
       .build =
           [](CaseBuilder& c) {
             c.result(c.call("batch_sum", {c.input("v", {Dim::batch(), of(3)})}));
           }},
      {.name = "batch_sum_weighted_by_sample",
       .build =
           [](CaseBuilder& c) {
             const ValueId v = c.input("v", {Dim::batch(), of(3)});
             const ValueId w = c.constant("w", {Dim::batch()}, Fill::kPositive);
             c.result(c.call("batch_sum", {v, w}));
           }},
      {.name = "batch_sum_weighted",
       .build =
           [](CaseBuilder& c) {
             const ValueId v = c.input("v", {Dim::batch(), of(3)});
             const ValueId w = c.constant("w", {Dim::batch(), of(3)}, Fill::kPositive);
             c.result(c.call("batch_sum", {v, w}));
           }},
      {.name = "batch_sum_of_several_rows",
       .build =
           [](CaseBuilder& c) {
             const ValueId v = c.input("v", {Dim::batch(2), of(3)});
             const ValueId w = c.constant("w", {Dim::batch(2)}, Fill::kPositive);
             c.result(c.call("batch_sum", {v, w}));
             c.result(c.call("batch_sum", {v}));
           }},
      {.name = "batch_sum_of_a_weight",
       .build =
           [](CaseBuilder& c) {
             c.result(c.call("batch_sum", {c.input("v", {of(4), of(3)})}));
           }},
      {.name = "batch_max",
       .build =
           [](CaseBuilder& c) {
             const ValueId v = c.input("v", {Dim::batch(), of(3), of(4)});
             c.result(c.call("multiply", {v, c.call("batch_max", {v})}));
           }},
      {.name = "divide_by_count",
       .build =
           [](CaseBuilder& c) {
             const ValueId sum = c.call("batch_sum", {c.input("v", {Dim::batch(), of(3)})});
             c.result(c.call("divide_by_count", {sum}, {{"elements_per_sample", 3}}));
           }},
      {.name = "batch_count",
       .build =
           [](CaseBuilder& c) {
             c.call("batch_count", {},
                    {{"elements_per_sample", 3}, {"dtype", std::string(to_string(c.real()))}});
           }},
      regularizer("sum_squares"),
      regularizer("sum_abs"),
  };
}

}  // namespace plimsoll::ops_test
