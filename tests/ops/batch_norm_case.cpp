#include "ops/cases.h"

namespace plimsoll::ops_test {
namespace {

Dim of(int64_t n) { return Dim::constant(n); }

Case training(const std::string& name, bool scale, bool center, Shape shape) {
  return {.name = name,
          .build =
              [=](CaseBuilder& c) {
                const Dim channels = shape[shape.rank() - 1];
                const ValueId x = c.input("x", shape);
                const ValueId moments = c.call("channel_moments", {x});
                std::vector<ValueId> inputs = {x, moments};
                if (scale) inputs.push_back(c.input("gamma", {channels}));
                if (center) inputs.push_back(c.input("beta", {channels}));
                c.result(c.call("batch_norm", inputs,
                                {{"epsilon", 1e-3}, {"scale", scale}, {"center", center}}));
              },
          .tolerance = 2e-5};
}

// Five samples in groups of `group`, the last one shorter or alone.
Case groups(const std::string& name, int64_t group, bool scale, bool center, Shape shape) {
  return {.name = name,
          .build =
              [=](CaseBuilder& c) {
                const Dim channels = shape[shape.rank() - 1];
                const ValueId x = c.input("x", shape);
                std::vector<ValueId> inputs = {x};
                if (scale) inputs.push_back(c.input("gamma", {channels}));
                if (center) inputs.push_back(c.input("beta", {channels}));
                c.result(c.call(
                    "batch_norm_groups", inputs,
                    {{"epsilon", 1e-3}, {"group", group}, {"scale", scale}, {"center", center}}));
              },
          .tolerance = 2e-5};
}

Case inference(const std::string& name, bool scale, bool center) {
  return {.name = name, .build = [=](CaseBuilder& c) {
            const ValueId x = c.input("x", {Dim::batch(), of(3), of(2), of(19)});
            std::vector<ValueId> inputs = {x, c.constant("mean", {of(19)}),
                                           c.constant("variance", {of(19)}, Fill::kPositive)};
            if (scale) inputs.push_back(c.input("gamma", {of(19)}));
            if (center) inputs.push_back(c.input("beta", {of(19)}));
            c.result(c.call("batch_norm_inference", inputs,
                            {{"epsilon", 1e-3}, {"scale", scale}, {"center", center}}));
          }};
}

}  // namespace

std::vector<Case> batch_norm_cases() {
  return {
      training("batch_norm", true, true, {Dim::batch(), of(4), of(3), of(18)}),
      training("batch_norm_of_rows", true, true, {Dim::batch(), of(5)}),
      training("batch_norm_of_several_rows", true, true, {Dim::batch(2), of(3), of(5)}),
      training("batch_norm_without_scale", false, true, {Dim::batch(), of(3), of(6)}),
      training("batch_norm_without_center", true, false, {Dim::batch(), of(3), of(6)}),
      groups("batch_norm_groups", 2, true, true, {Dim::batch(), of(4), of(3), of(18)}),
      groups("batch_norm_groups_of_rows", 3, true, true, {Dim::batch(), of(7)}),
      groups("batch_norm_groups_of_several_rows", 2, true, true, {Dim::batch(2), of(3), of(5)}),
      groups("batch_norm_groups_of_one", 1, true, false, {Dim::batch(), of(3), of(6)}),
      groups("batch_norm_groups_beyond_the_batch", 8, false, true, {Dim::batch(), of(3), of(6)}),
      {.name = "moving_moments",
       .build =
           [](CaseBuilder& c) {
             const ValueId x = c.constant("x", {Dim::batch(), of(6), of(4)});
             const ValueId mean = c.constant("mean", {of(4)});
             const ValueId variance = c.constant("variance", {of(4)}, Fill::kPositive);
             c.builder().add("moving_moments", "moving", {x, mean, variance},
                             {{"momentum", 0.75}, {"group", int64_t{2}}});
           }},
      {.name = "moving_moments_of_steps",
       .build =
           [](CaseBuilder& c) {
             const ValueId x = c.constant("x", {Dim::batch(), of(2), of(12)});
             const ValueId mean = c.constant("mean", {of(4)});
             const ValueId variance = c.constant("variance", {of(4)}, Fill::kPositive);
             c.builder().add("moving_moments", "moving", {x, mean, variance},
                             {{"momentum", 0.75}, {"group", int64_t{2}}});
           }},
      inference("batch_norm_inference", true, true),
      inference("batch_norm_inference_plain", false, false),
      {.name = "moving_average",
       .build =
           [](CaseBuilder& c) {
             const ValueId x = c.constant("x", {Dim::batch(), of(6), of(4)});
             const ValueId moving = c.constant("moving", {of(4)}, Fill::kPositive);
             const ValueId moments = c.call("channel_moments", {x});
             for (int64_t row : {0, 1}) {
               c.call("moving_average", {moving, moments},
                      {{"momentum", 0.99}, {"row", row}, {"elements_per_sample", 6}});
             }
           }},
      {.name = "moving_average_of_steps",
       .build =
           [](CaseBuilder& c) {
             const ValueId x = c.constant("x", {Dim::batch(), of(2), of(12)});
             const ValueId moving = c.constant("moving", {of(4)}, Fill::kPositive);
             const ValueId moments = c.call("channel_moments", {x});
             for (int64_t row : {0, 1}) {
               c.call("moving_average", {moving, moments},
                      {{"momentum", 0.75}, {"row", row}, {"elements_per_sample", 2}});
             }
           }},
  };
}

}  // namespace plimsoll::ops_test
