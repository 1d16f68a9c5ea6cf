#pragma once

// What a loop of the user's own keeps between calls: how much the gradients added up so far count.
//
//   accumulate(rows) … accumulate(rows)   gradient sums in state variables of the session
//   gradient, set_gradient                what apply will use
//   apply                                 one update; the sums start anew
//
// The session's programs are those of CompileOptions::accumulates. With kMean every sample counts
// the same however samples are spread over calls: n calls of m samples are one batch of n · m, but
// for rounding, for statistics of the batch (BatchNormalization) and for random draws. With kSum
// every call counts the same: the means of calls are added up and not divided.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "data/dataset.h"
#include "train/session.h"

namespace plimsoll::train {

enum class Accumulation : uint8_t { kMean, kSum };

class Accumulator {
 public:
  explicit Accumulator(Accumulation how) : how_(how) {}

  // Forward and backward on rows [first, first + count); returns their loss. Their gradients are
  // multiplied by `weight`. Throws kConfig where the session has no program for so many rows, where
  // a gradient was set since the last update, or where `weight` is not finite, and kData where the
  // rows are refused; then nothing has changed.
  double accumulate(Session& session, data::Dataset& dataset, int64_t first, int64_t count,
                    double weight);
  // The loss alone, as in evaluation.
  double loss(Session& session, data::Dataset& dataset, int64_t first, int64_t count) const;

  // What apply will take for a weight's gradient. Throw kConfig where it has none (did-you-mean),
  // where nothing was added up, or where the number of values is another.
  std::vector<float> gradient(Session& session, const std::string& weight) const;
  void set_gradient(Session& session, const std::string& weight, const std::vector<float>& values);

  // Throws kConfig where nothing was added up.
  void apply(Session& session);
  // Forgets what was added up; without a session where that one ended with its sums.
  void clear(Session& session);
  void forget();

  // Names of the weights that have gradients, in the order of the session's variables.
  static std::vector<std::string> weights(const Session& session);

  bool pending() const { return pending_; }
  int64_t calls() const { return calls_; }      // of accumulate
  int64_t updates() const { return updates_; }  // of apply
  // Where a run that is taken up again stands.
  void go_on_from(int64_t calls, int64_t updates);

 private:
  float factor() const;
  void settle(Session& session);

  Accumulation how_;
  int64_t samples_ = 0;  // since the last update
  bool pending_ = false;
  bool settled_ = false;  // the sums were multiplied by the factor
  int64_t calls_ = 0;
  int64_t updates_ = 0;
};

}  // namespace plimsoll::train
