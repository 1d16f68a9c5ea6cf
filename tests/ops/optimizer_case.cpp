#include "ops/cases.h"

namespace plimsoll::ops_test {
namespace {

// `slots` of the operator are filled with positive numbers.
Case optimizer(const std::string& name, const std::string& op, int slots, bool counts,
               Attributes attributes) {
  return {.name = name, .build = [=](CaseBuilder& c) {
            const Shape shape{Dim::constant(5), Dim::constant(23)};
            std::vector<ValueId> inputs = {c.constant("w", shape), c.constant("g", shape)};
            for (int i = 0; i < slots; ++i) {
              inputs.push_back(c.constant("slot", shape, Fill::kPositive));
            }
            inputs.push_back(c.constant("learning_rate", Shape(), Fill::kPositive));
            if (counts) inputs.push_back(c.integers("iterations", Shape(), DType::kInt64, 20));
            c.call(op, inputs, attributes);
          }};
}

}  // namespace

std::vector<Case> optimizer_cases() {
  const Attributes adam{{"beta_1", 0.9}, {"beta_2", 0.999}, {"epsilon", 1e-7}};
  Attributes decayed = adam;
  decayed.set("weight_decay", 0.004);
  const Attributes rmsprop{{"rho", 0.9}, {"epsilon", 1e-7}, {"momentum", 0.5}};
  // Slots of another distribution than gradients: mg² < v must hold.
  const Attributes centered{{"rho", 0.9}, {"epsilon", 4.0}, {"momentum", 0.5}};
  return {
      optimizer("sgd", "sgd", 0, false, {}),
      optimizer("sgd_decayed", "sgd", 0, false, {{"weight_decay", 0.004}}),
      optimizer("sgd_momentum", "sgd_momentum", 1, false, {{"momentum", 0.9}}),
      optimizer("sgd_nesterov", "sgd_momentum", 1, false, {{"momentum", 0.9}, {"nesterov", true}}),
      optimizer("adam", "adam", 2, true, adam),
      optimizer("adamw", "adam", 2, true, decayed),
      optimizer("adam_amsgrad", "adam_amsgrad", 3, true, adam),
      optimizer("rmsprop", "rmsprop", 1, false, rmsprop),
      optimizer("rmsprop_momentum", "rmsprop_momentum", 2, false, rmsprop),
      optimizer("rmsprop_centered", "rmsprop_centered", 2, false, centered),
      optimizer("rmsprop_centered_momentum", "rmsprop_centered_momentum", 3, false, centered),
  };
}

}  // namespace plimsoll::ops_test
