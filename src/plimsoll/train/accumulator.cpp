#include "train/accumulator.h"

#include <cmath>

#include "base/error.h"
#include "base/format.h"
#include "base/suggest.h"
#include "layers/training/accumulation.h"

namespace plimsoll::train {
namespace {

constexpr std::string_view kPrefix = "accumulation/";

bool is_sum(const std::string& state) {
  return state.starts_with(kPrefix) && state != layers::kShareState &&
         state != layers::kFactorState;
}

// Names of the weights that have gradients.
std::vector<std::string> trained_weights(const Session& session) {
  std::vector<std::string> names;
  for (const graph::StateVariable& state : graph::states_of(session.programs().set)) {
    if (is_sum(state.name)) names.push_back(state.name.substr(kPrefix.size()));
  }
  return names;
}

int64_t element_count(const Session& session, const std::string& weight) {
  const std::string name = layers::gradient_state(weight);
  for (const graph::StateVariable& state : graph::states_of(session.programs().set)) {
    if (state.name == name && is_sum(name)) return state.type.shape.element_count(1);
  }
  throw Error(ErrorKind::kConfig,
              "gradient: expected the name of a weight that is trained, "
              "received \"" +
                  weight + "\"." + did_you_mean(weight, trained_weights(session)));
}

std::vector<float> read_sum(Session& session, const std::string& weight) {
  std::vector<float> values(static_cast<size_t>(element_count(session, weight)));
  session.read_state(layers::gradient_state(weight), std::as_writable_bytes(std::span(values)));
  return values;
}

void write_sum(Session& session, const std::string& weight, const std::vector<float>& values) {
  session.write_state(layers::gradient_state(weight), std::as_bytes(std::span(values)));
}

void write_scalar(Session& session, std::string_view name, float value) {
  session.write_state(std::string(name), std::as_bytes(std::span(&value, 1)));
}

void check_rows(const Session& session, const data::Dataset& dataset, int64_t first,
                int64_t count) {
  if (first < 0 || count < 1 || first > dataset.row_count() - count) {
    throw Error(ErrorKind::kConfig,
                fmt::format("rows: expected some of the {} samples, received [{}, {}).",
                            dataset.row_count(), first, first + count));
  }
  if (session.has_program("train", count)) return;
  throw Error(
      ErrorKind::kConfig,
      fmt::format(
          "accumulate: expected as many samples as were planned for, received {}. Make the Trainer "
          "with batch = {}, or with short_batch = {} where only some calls have so few.",
          count, count, count));
}

}  // namespace

std::vector<std::string> Accumulator::weights(const Session& session) {
  return trained_weights(session);
}

float Accumulator::factor() const {
  if (settled_ || how_ == Accumulation::kSum) return 1;
  return static_cast<float>(1.0 / static_cast<double>(samples_));
}

double Accumulator::accumulate(Session& session, data::Dataset& dataset, int64_t first,
                               int64_t count, double weight) {
  check_rows(session, dataset, first, count);
  if (settled_) {
    throw Error(ErrorKind::kConfig,
                "accumulate: expected no more samples after set_gradient, received some. Call "
                "apply first.");
  }
  if (!std::isfinite(weight)) {
    throw Error(ErrorKind::kConfig,
                fmt::format("accumulate: expected a finite weight, received {:f}.", weight));
  }
  const double samples = how_ == Accumulation::kMean ? static_cast<double>(count) : 1.0;
  write_scalar(session, layers::kShareState, static_cast<float>(weight * samples));
  session.set_steps(calls_);
  const double loss = session.run_rows("train", dataset, first, count, true);
  ++calls_;
  samples_ += count;
  pending_ = true;
  return loss;
}

double Accumulator::loss(Session& session, data::Dataset& dataset, int64_t first,
                         int64_t count) const {
  check_rows(session, dataset, first, count);
  return session.run_rows("evaluate", dataset, first, count);
}

std::vector<float> Accumulator::gradient(Session& session, const std::string& weight) const {
  std::vector<float> values = read_sum(session, weight);
  if (!pending_) {
    throw Error(ErrorKind::kConfig,
                "gradient: expected samples since the last update, received none. Call accumulate "
                "first.");
  }
  const float by = factor();
  for (float& value : values) value *= by;
  return values;
}

void Accumulator::settle(Session& session) {
  if (settled_) return;
  const float by = factor();
  for (const std::string& weight : trained_weights(session)) {
    std::vector<float> values = read_sum(session, weight);
    for (float& value : values) value *= by;
    write_sum(session, weight, values);
  }
  settled_ = true;
}

void Accumulator::set_gradient(Session& session, const std::string& weight,
                               const std::vector<float>& values) {
  const int64_t expected = element_count(session, weight);
  if (expected != static_cast<int64_t>(values.size())) {
    throw Error(ErrorKind::kConfig,
                fmt::format("[{}] expected a gradient of {} values, received {}.", weight, expected,
                            values.size()));
  }
  if (pending_) {
    settle(session);
  } else {
    settled_ = true;  // the other sums are zero
    pending_ = true;
  }
  write_sum(session, weight, values);
}

void Accumulator::apply(Session& session) {
  if (!pending_) {
    throw Error(ErrorKind::kConfig,
                "apply: expected gradients, received none. Call accumulate or set_gradient first.");
  }
  write_scalar(session, layers::kFactorState, factor());
  session.run_apply();
  ++updates_;
  forget();
}

void Accumulator::clear(Session& session) {
  for (const std::string& weight : trained_weights(session)) {
    write_sum(session, weight,
              std::vector<float>(static_cast<size_t>(element_count(session, weight))));
  }
  forget();
}

void Accumulator::forget() {
  samples_ = 0;
  pending_ = settled_ = false;
}

void Accumulator::go_on_from(int64_t calls, int64_t updates) {
  calls_ = calls;
  updates_ = updates;
}

}  // namespace plimsoll::train
