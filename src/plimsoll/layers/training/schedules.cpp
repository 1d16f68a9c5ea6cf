#include "layers/training/schedules.h"

#include <array>

#include "base/error.h"
#include "base/suggest.h"
#include "layers/config/option_reader.h"
#include "layers/config/spelling.h"
#include "ops/literal.h"

namespace plimsoll::layers {
namespace {

constexpr double kNoBound = 1e30;

constexpr std::array<std::string_view, 6> kClasses = {
    "CosineDecay",      "CosineDecayRestarts",    "ExponentialDecay",
    "InverseTimeDecay", "PiecewiseConstantDecay", "PolynomialDecay"};

std::vector<double> numbers_of(const Config::Object& arguments, std::string_view key) {
  std::vector<double> numbers;
  for (const auto& [name, value] : arguments) {
    if (name != key) continue;
    for (const Config& item : value.as_array()) numbers.push_back(item.as_double());
  }
  return numbers;
}

void read_cosine(OptionReader& options, graph::Attributes& attributes) {
  attributes.set("kind", "cosine");
  attributes.set("initial", options.number("initial_learning_rate", 0, 0, kNoBound));
  attributes.set("steps", options.number("decay_steps", 1, 1, kNoBound));
  attributes.set("end", options.number("alpha", 0, -kNoBound, kNoBound));
  if (const auto target = options.optional_number("warmup_target", 0, kNoBound)) {
    attributes.set("warmup_target", *target);
    attributes.set("warmup_steps", options.number("warmup_steps", 0, 0, kNoBound));
  } else {
    options.ignore("warmup_steps");
  }
}

void read_restarts(OptionReader& options, graph::Attributes& attributes) {
  attributes.set("kind", "cosine_restarts");
  attributes.set("initial", options.number("initial_learning_rate", 0, 0, kNoBound));
  attributes.set("steps", options.number("first_decay_steps", 1, 1, kNoBound));
  attributes.set("t_mul", options.number("t_mul", 2, 1, kNoBound));
  attributes.set("m_mul", options.number("m_mul", 1, 0, kNoBound));
  attributes.set("end", options.number("alpha", 0, -kNoBound, kNoBound));
}

void read_rate_decay(OptionReader& options, const char* kind, graph::Attributes& attributes) {
  attributes.set("kind", kind);
  attributes.set("initial", options.number("initial_learning_rate", 0, 0, kNoBound));
  attributes.set("steps", options.number("decay_steps", 1, 1e-30, kNoBound));
  attributes.set("rate", options.number("decay_rate", 1, 0, kNoBound));
  attributes.set("staircase", options.flag("staircase", false));
}

void read_polynomial(OptionReader& options, graph::Attributes& attributes) {
  attributes.set("kind", "polynomial");
  attributes.set("initial", options.number("initial_learning_rate", 0, 0, kNoBound));
  attributes.set("steps", options.number("decay_steps", 1, 1, kNoBound));
  attributes.set("end", options.number("end_learning_rate", 0.0001, 0, kNoBound));
  attributes.set("power", options.number("power", 1, 0, kNoBound));
  attributes.set("cycle", options.flag("cycle", false));
}

void read_piecewise(OptionReader& options, const Config::Object& arguments,
                    graph::Attributes& attributes) {
  const std::vector<double> boundaries = numbers_of(arguments, "boundaries");
  const std::vector<double> values = numbers_of(arguments, "values");
  if (boundaries.empty() || values.size() != boundaries.size() + 1) {
    options.refuse("values", "one more than boundaries",
                   Config(static_cast<int64_t>(values.size())));
  }
  options.ignore("boundaries");
  options.ignore("values");
  attributes.set("kind", "piecewise");
  attributes.set("boundaries", ops::literal_text(DType::kFloat64, boundaries));
  attributes.set("values", ops::literal_text(DType::kFloat64, values));
}

}  // namespace

graph::Attributes read_schedule(const Config& config) {
  const Spelling given = read_object(config, "learning_rate");
  OptionReader options(given.arguments, given.name);
  options.ignore("name");
  graph::Attributes attributes;
  if (given.name == "CosineDecay") {
    read_cosine(options, attributes);
  } else if (given.name == "CosineDecayRestarts") {
    read_restarts(options, attributes);
  } else if (given.name == "ExponentialDecay") {
    read_rate_decay(options, "exponential", attributes);
  } else if (given.name == "InverseTimeDecay") {
    read_rate_decay(options, "inverse_time", attributes);
  } else if (given.name == "PolynomialDecay") {
    read_polynomial(options, attributes);
  } else if (given.name == "PiecewiseConstantDecay") {
    read_piecewise(options, given.arguments, attributes);
  } else {
    throw Error(ErrorKind::kModel,
                "learning_rate: expected a number or one of Keras's schedules, received \"" +
                    given.name + "\"." + did_you_mean(given.name, kClasses));
  }
  options.finish();
  return attributes;
}

}  // namespace plimsoll::layers
