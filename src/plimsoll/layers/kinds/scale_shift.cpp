#include "layers/kinds/scale_shift.h"

#include "layers/config/constraints.h"
#include "layers/config/initializers.h"
#include "layers/config/regularizers.h"

namespace plimsoll::layers {

ScaleShift ScaleShift::read(ConfigReader& reader) {
  ScaleShift options;
  options.center = reader.flag("center", true);
  options.scale = reader.flag("scale", true);
  options.beta_initializer = read_initializer(reader, "beta_initializer", "zeros");
  options.gamma_initializer = read_initializer(reader, "gamma_initializer", "ones");
  options.beta_regularizer = read_regularizer(reader, "beta_regularizer");
  options.gamma_regularizer = read_regularizer(reader, "gamma_regularizer");
  options.beta_constraint = read_constraint(reader, "beta_constraint");
  options.gamma_constraint = read_constraint(reader, "gamma_constraint");
  return options;
}

std::vector<Weight> ScaleShift::weights(const std::vector<int64_t>& dims) const {
  std::vector<Weight> weights;
  if (scale) {
    weights.push_back(
        {"gamma", dims, gamma_initializer, gamma_regularizer, true, gamma_constraint});
  }
  if (center) {
    weights.push_back({"beta", dims, beta_initializer, beta_regularizer, true, beta_constraint});
  }
  return weights;
}

double read_epsilon(ConfigReader& reader, double fallback) {
  const double epsilon = reader.number("epsilon", fallback);
  if (!(epsilon >= 0 && epsilon <= 1)) reader.refuse("epsilon", "0 to 1", std::to_string(epsilon));
  return epsilon;
}

}  // namespace plimsoll::layers
