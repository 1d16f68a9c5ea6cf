#include "ops/cases.h"

namespace plimsoll::ops_test {
namespace {

// `slots` of the operator are filled with positive numbers; so is what stands for g² where it is
// `given`.
Case optimizer(const std::string& name, const std::string& op, int slots, bool counts,
               Attributes attributes, bool given = false) {
  return {.name = name, .build = [=](CaseBuilder& c) {
            const Shape shape{Dim::constant(5), Dim::constant(23)};
            std::vector<ValueId> inputs = {c.constant("w", shape), c.constant("g", shape)};
            for (int i = 0; i < slots; ++i) {
              inputs.push_back(c.constant("slot", shape, Fill::kPositive));
            }
            inputs.push_back(c.constant("learning_rate", Shape(), Fill::kPositive));
            if (counts) inputs.push_back(c.integers("iterations", Shape(), DType::kInt64, 20));
            if (given) inputs.push_back(c.constant("squares", shape, Fill::kPositive));
            c.call(op, inputs, attributes);
          }};
}

// A weight and its average, at a step in which the one takes the other's place or in which it does
// not.
Case average(const std::string& name, int64_t every) {
  return {.name = name, .build = [=](CaseBuilder& c) {
            const Shape shape{Dim::constant(5), Dim::constant(23)};
            c.call("weight_average",
                   {c.constant("w", shape), c.constant("average", shape),
                    c.integers("iterations", Shape(), DType::kInt64, 20)},
                   {{"momentum", 0.9}, {"overwrite_every", every}});
          }};
}

// Adafactor of a weight of that shape, whose means are of its last two dimensions.
Case adafactor(const std::string& name, const std::vector<int64_t>& dims, bool given,
               Attributes attributes) {
  return {.name = name, .build = [=](CaseBuilder& c) {
            const auto shape_without = [&](size_t back) {
              if (dims.size() < 2 && back > 0) return Shape();
              std::vector<int64_t> left = dims;
              if (back > 0) left.erase(left.end() - static_cast<ptrdiff_t>(back));
              return fixed_shape(left);
            };
            const Shape shape = shape_without(0);
            std::vector<ValueId> inputs = {c.constant("w", shape),
                                           c.constant("g", shape),
                                           c.constant("r", shape_without(1), Fill::kPositive),
                                           c.constant("c", shape_without(2), Fill::kPositive),
                                           c.constant("v", shape, Fill::kPositive),
                                           c.constant("learning_rate", Shape(), Fill::kPositive),
                                           c.integers("iterations", Shape(), DType::kInt64, 20)};
            if (given) inputs.push_back(c.constant("squares", shape, Fill::kPositive));
            c.call("adafactor", inputs, attributes);
          }};
}

// The same with the gradient of a dense layer over `rows` of each sample (1: none of their own; 2:
// in the dimension of the batch).
Case dense_update(const std::string& name, const std::string& op, int slots, bool counts,
                  Attributes attributes, int64_t rows, int64_t inner, int64_t units,
                  int64_t batch = 5) {
  return {.name = name,
          .build =
              [=](CaseBuilder& c) mutable {
                const auto factor = [&](const char* what, int64_t width) {
                  const Dim last = Dim::constant(width);
                  if (rows == 2) return c.constant(what, {Dim::batch(2), last});
                  return c.constant(what, rows == 1
                                              ? Shape{Dim::batch(), last}
                                              : Shape{Dim::batch(), Dim::constant(rows), last});
                };
                const Shape shape{Dim::constant(inner), Dim::constant(units)};
                std::vector<ValueId> inputs = {factor("x", inner), factor("dy", units),
                                               c.constant("w", shape)};
                for (int i = 0; i < slots; ++i) {
                  inputs.push_back(c.constant("slot", shape, Fill::kPositive));
                }
                inputs.push_back(c.constant("learning_rate", Shape(), Fill::kPositive));
                if (counts) inputs.push_back(c.integers("iterations", Shape(), DType::kInt64, 20));
                attributes.set("optimizer", op);
                c.call("dense_grad_update", inputs, attributes);
              },
          .batch = batch};
}

// What follows an update.
Case constraint(const std::string& name, const std::string& op, Attributes attributes) {
  return {.name = name, .build = [=](CaseBuilder& c) {
            const ValueId w = c.constant(
                "w", {Dim::constant(3), Dim::constant(2), Dim::constant(5), Dim::constant(11)});
            c.call(op, {w}, attributes);
          }};
}

}  // namespace

std::vector<Case> optimizer_cases() {
  const Attributes adam{{"beta_1", 0.9}, {"beta_2", 0.999}, {"epsilon", 1e-7}};
  Attributes decayed = adam;
  decayed.set("weight_decay", 0.004);
  const Attributes rmsprop{{"rho", 0.9}, {"epsilon", 1e-7}, {"momentum", 0.5}};
  const Attributes factors{
      {"beta_2_decay", -0.8}, {"epsilon_1", 1e-30}, {"epsilon_2", 1e-3}, {"clip_threshold", 0.7}};
  Attributes decayed_factors = factors;
  decayed_factors.set("weight_decay", 0.01);
  const Attributes schedule_free{
      {"beta_1", 0.9}, {"beta_2", 0.99}, {"epsilon", 1e-8}, {"warmup_steps", 25.0}};
  // Slots of another distribution than gradients: mg² < v must hold.
  const Attributes centered{{"rho", 0.9}, {"epsilon", 4.0}, {"momentum", 0.5}};
  return {
      average("weight_average", 0),
      average("weight_average_that_overwrites", 1),
      optimizer("sgd", "sgd", 0, false, {}),
      optimizer("sgd_decayed", "sgd", 0, false, {{"weight_decay", 0.004}}),
      optimizer("sgd_momentum", "sgd_momentum", 1, false, {{"momentum", 0.9}}),
      optimizer("sgd_nesterov", "sgd_momentum", 1, false, {{"momentum", 0.9}, {"nesterov", true}}),
      optimizer("adam", "adam", 2, true, adam),
      optimizer("adamw", "adam", 2, true, decayed),
      optimizer("adam_amsgrad", "adam_amsgrad", 3, true, adam),
      optimizer("adagrad", "adagrad", 1, false, {{"epsilon", 1e-7}}),
      optimizer("adadelta", "adadelta", 2, false, {{"rho", 0.95}, {"epsilon", 1e-7}}),
      optimizer("adamax", "adamax", 2, true, adam),
      optimizer("nadam", "nadam", 2, true, adam),
      optimizer("ftrl", "ftrl", 2, false,
                {{"learning_rate_power", -0.5},
                 {"l1_regularization_strength", 0.1},
                 {"l2_regularization_strength", 0.2},
                 {"l2_shrinkage_regularization_strength", 0.05},
                 {"beta", 0.3},
                 {"weight_decay", 0.004}}),
      optimizer("adagrad_rows", "adagrad", 1, false, {{"epsilon", 1e-7}}, true),
      optimizer("adadelta_rows", "adadelta", 2, false, {{"rho", 0.95}, {"epsilon", 1e-7}}, true),
      optimizer("adamax_rows", "adamax", 2, true, adam, true),
      optimizer("nadam_rows", "nadam", 2, true, adam, true),
      optimizer("rmsprop_rows", "rmsprop", 1, false, rmsprop, true),
      optimizer("rmsprop_momentum_rows", "rmsprop_momentum", 2, false, rmsprop, true),
      optimizer("lion", "lion", 1, false, {{"beta_1", 0.9}, {"beta_2", 0.99}}),
      optimizer("lamb", "lamb", 2, true, adam),
      optimizer("lamb_decayed_rows", "lamb", 2, true, decayed, true),
      optimizer("schedule_free", "schedule_free_adamw", 2, true, schedule_free),
      optimizer("schedule_free_rows", "schedule_free_adamw", 2, true, schedule_free, true),
      adafactor("adafactor_matrix", {5, 23}, false, factors),
      adafactor("adafactor_kernel", {3, 2, 4, 7}, false, decayed_factors),
      adafactor("adafactor_rows", {5, 6}, true, factors),
      adafactor("adafactor_vector", {23}, false, decayed_factors),
      constraint("unit_norm", "unit_norm", {{"axes", std::vector<int64_t>{0}}}),
      constraint("clip_norm", "clip_norm",
                 {{"axes", std::vector<int64_t>{0, 1, 2}},
                  {"min_value", 0.5},
                  {"max_value", 4.0},
                  {"rate", 0.75}}),
      dense_update("dense_sgd", "sgd", 0, false, {}, 1, 9, 6),
      dense_update("dense_adam", "adam", 2, true, adam, 1, 70, 23),
      dense_update("dense_adamw_of_rows", "adam", 2, true, decayed, 3, 31, 40),
      dense_update("dense_adagrad", "adagrad", 1, false, {{"epsilon", 1e-7}}, 1, 20, 17),
      dense_update("dense_adamax", "adamax", 2, true, adam, 1, 21, 8),
      dense_update("dense_amsgrad", "adam_amsgrad", 3, true, adam, 2, 26, 18, 1),
      dense_update("dense_sgd_many_rows", "sgd_momentum", 1, false, {{"momentum", 0.9}}, 1, 30, 35,
                   300),
      dense_update("dense_adam_in_tiles", "adam", 2, true, adam, 1, 55, 3000),
      optimizer("rmsprop", "rmsprop", 1, false, rmsprop),
      optimizer("rmsprop_momentum", "rmsprop_momentum", 2, false, rmsprop),
      optimizer("rmsprop_centered", "rmsprop_centered", 2, false, centered),
      optimizer("rmsprop_centered_momentum", "rmsprop_centered_momentum", 3, false, centered),
  };
}

}  // namespace plimsoll::ops_test
