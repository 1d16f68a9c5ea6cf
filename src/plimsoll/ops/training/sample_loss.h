#pragma once

// What losses per sample have in common: (prediction (B, …, C), target) → (B, …), and a gradient
// operator (prediction, target, d(loss) (B, …)) → d(prediction). Formulas are Keras's, TensorFlow
// backend. Targets get no gradient.

#include "ops/rules.h"

namespace plimsoll::ops {

enum class TargetKind : uint8_t {
  kDense,   // of the prediction's type
  kLabels,  // integers (B, …): class numbers
};

// `<name>` and `<name>_grad`; `numbers` are the attributes that both must have.
void add_sample_loss(OpRegistry& registry, std::string_view name, std::string_view grad_name,
                     TargetKind target, double flops_per_element,
                     std::vector<std::string_view> numbers = {});

}  // namespace plimsoll::ops
