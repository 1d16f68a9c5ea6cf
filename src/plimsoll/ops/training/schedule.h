#pragma once

// Keras's learning-rate schedules: the rate as a function of the number of steps so far.
//
// Formulas are keras.optimizers.schedules of Keras 3, computed in float32 as there. Lists of
// numbers are literal texts (literal.h).

#include <cstdint>
#include <vector>

#include "graph/attributes.h"

namespace plimsoll::ops {

struct Schedule {
  enum class Kind : uint8_t {
    kExponential,
    kPiecewise,
    kPolynomial,
    kInverseTime,
    kCosine,
    kCosineRestarts,
  };
  Kind kind = Kind::kExponential;
  float initial = 0;
  float steps = 1;  // decay_steps, first_decay_steps
  float rate = 1;   // decay_rate
  float end = 0;    // end_learning_rate; alpha of the cosines
  float power = 1;
  float warmup_target = 0;
  float warmup_steps = 0;
  float t_mul = 2;
  float m_mul = 1;
  bool warms_up = false;
  bool staircase = false;
  bool cycle = false;
  std::vector<double> boundaries{};
  std::vector<double> values{};
};

// Throws kModel.
Schedule read_schedule(const graph::Attributes& attributes);
float learning_rate_at(const Schedule& schedule, int64_t step);

}  // namespace plimsoll::ops
