#pragma once

#include <cstdint>
#include <vector>

#include "layers/model/layer.h"

// gamma and beta: the trained factor and summand after a normalization, their options as Keras
// spells them (`scale`, `center`, `gamma_…`, `beta_…`) and their weights. The layer applies them.
namespace plimsoll::layers {

struct ScaleShift {
  bool scale = true;
  bool center = true;
  Config gamma_initializer;
  Config beta_initializer;
  Config gamma_regularizer;
  Config beta_regularizer;
  Config gamma_constraint;
  Config beta_constraint;

  static ScaleShift read(ConfigReader& reader);

  // Those of the two that are there, gamma first, of the shape `dims`.
  std::vector<Weight> weights(const std::vector<int64_t>& dims) const;
};

// `epsilon`, from 0 to 1.
double read_epsilon(ConfigReader& reader, double fallback = 1e-3);

}  // namespace plimsoll::layers
