// scheduled_rate: (iterations) → the learning rate of this step (schedule.h).

#include "ops/training/schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "ops/literal.h"
#include "ops/register.h"
#include "ops/rules.h"

namespace plimsoll::ops {
namespace {

class ScheduledRate final : public NamedOp {
 public:
  ScheduledRate() : NamedOp("scheduled_rate") {}

  std::vector<ValueType> infer(const NodeTypes& node) const override {
    expect_operands(node, 1, 1);
    expect_type(node, 0, {DType::kInt64, Shape()});
    read_schedule(node.attributes);
    return {{DType::kFloat32, Shape()}};
  }

  OpTraits traits() const override { return {.cheap = true}; }
};

float number(const Attributes& attributes, std::string_view key, double fallback) {
  return static_cast<float>(attributes.get_double(key, fallback));
}

float cosine_share(const Schedule& s, float fraction, float factor) {
  const float cosine = 0.5F * factor * (1.0F + std::cos(std::numbers::pi_v<float> * fraction));
  return (1.0F - s.end) * cosine + s.end;
}

float cosine(const Schedule& s, float step) {
  if (!s.warms_up) {
    return s.initial * cosine_share(s, std::min(step, s.steps) / s.steps, 1.0F);
  }
  step = std::min(step, s.steps + s.warmup_steps);
  if (step < s.warmup_steps) {
    return (s.warmup_target - s.initial) * (step / s.warmup_steps) + s.initial;
  }
  return s.warmup_target * cosine_share(s, (step - s.warmup_steps) / s.steps, 1.0F);
}

float cosine_restarts(const Schedule& s, float step) {
  float fraction = step / s.steps;
  float restarts = 0;
  if (s.t_mul == 1.0F) {
    restarts = std::floor(fraction);
    fraction -= restarts;
  } else {
    restarts = std::floor(std::log(1.0F - fraction * (1.0F - s.t_mul)) / std::log(s.t_mul));
    const float power = std::pow(s.t_mul, restarts);
    const float sum = (1.0F - power) / (1.0F - s.t_mul);
    fraction = (fraction - sum) / power;
  }
  return s.initial * cosine_share(s, fraction, std::pow(s.m_mul, restarts));
}

float polynomial(const Schedule& s, float step) {
  float steps = s.steps;
  if (s.cycle) {
    steps *= step == 0 ? 1.0F : std::ceil(step / s.steps);
  } else {
    step = std::min(step, steps);
  }
  return (s.initial - s.end) * std::pow(1.0F - step / steps, s.power) + s.end;
}

}  // namespace

Schedule read_schedule(const Attributes& attributes) {
  Schedule schedule;
  const std::string& kind = attributes.get_string("kind");
  constexpr std::string_view kKinds[] = {"exponential",  "piecewise", "polynomial",
                                         "inverse_time", "cosine",    "cosine_restarts"};
  const auto* found = std::ranges::find(kKinds, kind);
  if (found == std::end(kKinds)) refuse("a kind of schedule", kind, "Check the attributes.");
  schedule.kind = static_cast<Schedule::Kind>(found - std::begin(kKinds));
  schedule.initial = number(attributes, "initial", 0);
  schedule.steps = number(attributes, "steps", 1);
  schedule.rate = number(attributes, "rate", 1);
  schedule.end = number(attributes, "end", 0);
  schedule.power = number(attributes, "power", 1);
  schedule.warms_up = attributes.has("warmup_target");
  schedule.warmup_target = number(attributes, "warmup_target", 0);
  schedule.warmup_steps = number(attributes, "warmup_steps", 0);
  schedule.t_mul = number(attributes, "t_mul", 2);
  schedule.m_mul = number(attributes, "m_mul", 1);
  schedule.staircase = attributes.get_bool("staircase", false);
  schedule.cycle = attributes.get_bool("cycle", false);
  if (schedule.kind == Schedule::Kind::kPiecewise) {
    schedule.boundaries = read_literal(DType::kFloat64, attributes.get_string("boundaries"));
    schedule.values = read_literal(DType::kFloat64, attributes.get_string("values"));
    if (schedule.boundaries.empty() || schedule.values.size() != schedule.boundaries.size() + 1) {
      refuse("one value more than boundaries", std::to_string(schedule.values.size()), "");
    }
  }
  return schedule;
}

float learning_rate_at(const Schedule& s, int64_t step) {
  const auto at = static_cast<float>(step);
  switch (s.kind) {
    case Schedule::Kind::kExponential: {
      const float p = at / s.steps;
      return s.initial * std::pow(s.rate, s.staircase ? std::floor(p) : p);
    }
    case Schedule::Kind::kPiecewise: {
      size_t i = 0;
      // Keras casts a boundary to the type of the counter.
      while (i < s.boundaries.size() && step > static_cast<int64_t>(s.boundaries[i])) ++i;
      return static_cast<float>(s.values[i]);
    }
    case Schedule::Kind::kPolynomial:
      return polynomial(s, at);
    case Schedule::Kind::kInverseTime: {
      const float p = at / s.steps;
      return s.initial / (1.0F + s.rate * (s.staircase ? std::floor(p) : p));
    }
    case Schedule::Kind::kCosine:
      return cosine(s, at);
    case Schedule::Kind::kCosineRestarts:
      return cosine_restarts(s, at);
  }
  return s.initial;
}

void register_schedule(OpRegistry& registry) { add_op<ScheduledRate>(registry); }

}  // namespace plimsoll::ops
