#include "train/callbacks.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <initializer_list>
#include <map>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/format.h"
#include "base/suggest.h"

namespace plimsoll::train {
namespace {

// Numbers by name, from "a=1,b=2"; a lone first number is that of `first`.
class NamedNumbers {
 public:
  NamedNumbers(const char* option, std::string_view text, std::string_view first,
               std::vector<std::string_view> known)
      : option_(option), known_(std::move(known)) {
    for (size_t begin = 0; begin < text.size();) {
      const size_t end = std::min(text.find(',', begin), text.size());
      take(text.substr(begin, end - begin), begin == 0 ? first : std::string_view());
      begin = end + 1;
    }
  }

  double number(std::string_view name, double fallback, double least, double most) const {
    const auto found = values_.find(name);
    if (found == values_.end()) return fallback;
    if (found->second >= least && found->second <= most) return found->second;
    throw Error(ErrorKind::kConfig, std::string(option_) + ": expected " + std::string(name) +
                                        " from " + shown(least) + " to " + shown(most) +
                                        ", received " + shown(found->second) + ".");
  }
  int64_t count(std::string_view name, int64_t fallback) const {
    const double value = number(name, static_cast<double>(fallback), 0, 1e9);
    if (value == std::floor(value)) return static_cast<int64_t>(value);
    throw Error(ErrorKind::kConfig, std::string(option_) +
                                        ": expected a whole number of epochs as " +
                                        std::string(name) + ", received " + shown(value) + ".");
  }

 private:
  static std::string shown(double value) { return fmt::format("{:g}", value); }
  void take(std::string_view part, std::string_view lone) {
    const size_t equals = part.find('=');
    const std::string_view name = equals == std::string_view::npos ? lone : part.substr(0, equals);
    const std::string_view value =
        equals == std::string_view::npos ? part : part.substr(equals + 1);
    if (std::find(known_.begin(), known_.end(), name) == known_.end()) {
      std::string list;
      for (const std::string_view one : known_)
        list += (list.empty() ? "" : ", ") + std::string(one);
      throw Error(ErrorKind::kConfig, std::string(option_) + ": expected NAME=NUMBER with " + list +
                                          ", received \"" + std::string(part) + "\"." +
                                          did_you_mean(name, known_));
    }
    double number = value == "true" ? 1 : 0;
    const auto read = std::from_chars(value.data(), value.data() + value.size(), number);
    const bool word = value == "true" || value == "false";
    if (!word && (read.ec != std::errc() || read.ptr != value.data() + value.size())) {
      throw Error(ErrorKind::kConfig, std::string(option_) + ": expected a number for " +
                                          std::string(name) + ", received \"" + std::string(value) +
                                          "\".");
    }
    values_[std::string(name)] = number;
  }

  const char* option_;
  std::vector<std::string_view> known_;
  std::map<std::string, double, std::less<>> values_;
};

}  // namespace

EarlyStopping parse_early_stopping(std::string_view text) {
  const NamedNumbers numbers("--early-stopping", text, "patience",
                             {"patience", "min_delta", "restore_best"});
  EarlyStopping stopping;
  stopping.patience = numbers.count("patience", stopping.patience);
  stopping.min_delta = numbers.number("min_delta", stopping.min_delta, 0, 1e30);
  stopping.restore_best = numbers.number("restore_best", 1, 0, 1) != 0;
  return stopping;
}

ReduceOnPlateau parse_reduce_on_plateau(std::string_view text) {
  const NamedNumbers numbers("--reduce-on-plateau", text, "patience",
                             {"factor", "patience", "min_delta", "cooldown", "min_lr"});
  ReduceOnPlateau plateau;
  plateau.factor = numbers.number("factor", plateau.factor, 0, 0.999999);
  plateau.patience = numbers.count("patience", plateau.patience);
  plateau.min_delta = numbers.number("min_delta", plateau.min_delta, 0, 1e30);
  plateau.cooldown = numbers.count("cooldown", plateau.cooldown);
  plateau.min_lr = numbers.number("min_lr", plateau.min_lr, 0, 1e30);
  return plateau;
}

Callbacks::Callbacks(CallbackOptions options, const Session& session, bool validates)
    : options_(std::move(options)),
      best_(options_.best_path, options_.spill_directory, options_.writes) {
  find_monitor(session, validates);
  if (!options_.plateau || session.learning_rate()) return;
  throw Error(
      ErrorKind::kConfig,
      "--reduce-on-plateau: expected a learning rate to reduce, received an optimizer that follows "
      "a schedule, or a model in which nothing is trained. Leave it out.");
}

void Callbacks::say(const std::string& text) const {
  if (options_.say) options_.say(text);
}

void Callbacks::find_monitor(const Session& session, bool validates) {
  std::vector<std::string> names;
  for (const auto& [name, value] : session.read_metrics()) names.push_back(name);
  if (validates) {
    for (size_t i = 0, count = names.size(); i < count; ++i) names.push_back("val_" + names[i]);
  }
  monitor_ = options_.monitor;
  if (monitor_.empty()) monitor_ = validates ? "val_loss" : "loss";
  std::string_view bare = monitor_;
  if (bare.starts_with("val_")) bare.remove_prefix(4);
  const std::string_view whole = bare.substr(0, bare.find('['));  // of one number of several
  const auto& metrics = session.programs().metrics;
  const auto found = std::ranges::find(metrics, whole, &layers::MetricState::name);
  larger_is_better_ = found != metrics.end() && found->result.grows;
  if (std::ranges::find(names, monitor_) != names.end()) return;
  const bool unvalidated = !validates && std::ranges::find(names, bare) != names.end();
  std::string list;
  for (const std::string& name : names) list += (list.empty() ? "" : ", ") + name;
  throw Error(
      ErrorKind::kConfig,
      fmt::format("--monitor: expected one of the metrics {}, received \"{}\".{}", list, monitor_,
                  unvalidated ? " Names with val_ are of data to validate on: give "
                                "--validation PATH or --validation-split PART, too."
                              : did_you_mean(monitor_, names)));
}

double Callbacks::monitored(const EpochResult& result) const {
  const auto found =
      std::ranges::find(result.metrics, monitor_, [](const auto& m) { return m.first; });
  PLIMSOLL_CHECK(found != result.metrics.end(), "an epoch without the monitored metric");
  return found->second;
}

bool Callbacks::better(double value, double than, double min_delta) const {
  return larger_is_better_ ? value - min_delta > than : value + min_delta < than;
}

void Callbacks::watch_plateau(Session& session, double value) {
  const ReduceOnPlateau& plateau = *options_.plateau;
  if (state_.cooldown > 0) {
    --state_.cooldown;
    state_.plateau_wait = 0;
  }
  if (!state_.plateau_best || better(value, *state_.plateau_best, plateau.min_delta)) {
    state_.plateau_best = value;
    state_.plateau_wait = 0;
    return;
  }
  if (state_.cooldown > 0 || ++state_.plateau_wait < plateau.patience) return;
  const double rate = *session.learning_rate();
  if (static_cast<float>(rate) <= static_cast<float>(plateau.min_lr)) return;
  const double lower = std::max(rate * plateau.factor, plateau.min_lr);
  session.set_learning_rate(lower);
  state_.cooldown = plateau.cooldown;
  state_.plateau_wait = 0;
  say(fmt::format("{} has not improved: the learning rate is now {:g}", monitor_, lower));
}

bool Callbacks::end_epoch(Session& session, const EpochResult& result) {
  const double value = monitored(result);
  const double min_delta = options_.early_stopping ? options_.early_stopping->min_delta : 0;
  ++state_.wait;
  if (!state_.best || better(value, *state_.best, min_delta)) {
    state_.best = value;
    state_.best_epoch = result.epoch;
    state_.wait = 0;
    if (options_.early_stopping && options_.early_stopping->restore_best) {
      // A file for a run that goes on has all of the state; others what this rank holds of it.
      const bool file = best_.writes_path();
      session.with_whole_state(file, [&](TensorSource& whole) { best_.save(whole, result.epoch); });
      if (!file) best_.save(*session.state(), result.epoch);
    }
    if (options_.on_best) options_.on_best(session);
  }
  if (options_.plateau) watch_plateau(session, value);
  const bool over = options_.early_stopping && state_.wait > 0 &&
                    state_.wait >= options_.early_stopping->patience && result.epoch > 1;
  if (over) {
    state_.stopped = true;
    say(fmt::format("stopped early: {} was best in epoch {}", monitor_, state_.best_epoch));
  }
  return over;
}

void Callbacks::finish(Session& session) {
  const bool wanted = options_.early_stopping && options_.early_stopping->restore_best;
  if (!wanted || !state_.best) return;
  const std::unique_ptr<TensorSource> best = best_.load(state_.best_epoch);
  bool lost = best == nullptr;
  if (options_.ranks != nullptr) {
    // Some ranks' parts of that epoch and others' of the last one would be no model.
    lost = any_rank(*options_.ranks, lost);
    options_.ranks->check();
  }
  if (lost) {
    say(fmt::format(
        "the weights of epoch {}, the best one, are no longer there: the last ones are kept",
        state_.best_epoch));
    return;
  }
  session.restore(*best, session.steps());
}

}  // namespace plimsoll::train
