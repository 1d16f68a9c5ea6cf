#pragma once

// Training loops of one's own: gradients are added up over calls, read, changed and applied.
//
//   pl::Trainer trainer(model, {.batch = 16, .memory = 64_MiB});
//   for (int k = 0; k < 4; ++k) trainer.accumulate(data, 16 * k, 16);
//   trainer.apply();                                   // one update by the mean over 64 samples
//
// The mean counts every sample once, however samples are spread over calls; Reduce::kSum adds the
// means of calls up and divides by nothing. The model keeps its weights: they may be read, saved
// and evaluated between calls (which moves them out of the trainer's arena and back), and layers
// that are frozen stay as they are. Several trainers may live at once, each on a model of its own;
// a limit counts what the others hold. What a call does not do: split a batch on its own; each call
// is one batch, with its own statistics in BatchNormalization and its own draws in Dropout.

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "api/model.h"

namespace plimsoll {

enum class Reduce { kMean, kSum };

struct TrainerOptions {
  int64_t batch = 32;             // samples of a call
  int64_t short_batch = 0;        // of a call with less, where there are such; 0: there are none
  std::optional<Bytes> memory{};  // of the process; none: the fastest plan
  Bytes given{};                  // as in FitOptions
  Reduce reduce = Reduce::kMean;  // of calls
  bool sample_weights = false;    // whether data sets bring them
  uint64_t seed = 0;              // of initial weights and dropout
  int threads = 0;                // 0: what the process may use
  int parts = 0;                  // as in FitOptions; 0: as many as threads
  int64_t lanes = 0;              // as in FitOptions; 0: 1
  std::string backend{};
  std::string times{};  // as in FitOptions
  bool tune = false;
  std::string precision{};                              // as in FitOptions
  std::function<void(const std::string&)> on_notice{};  // a sentence or more, of resume
};

class Trainer {
 public:
  // The model is compiled and outlives the trainer. Throws kConfig, kBudget.
  explicit Trainer(Model& model, const TrainerOptions& options = {});

  // Forward and backward on one batch; returns its loss. The gradients count `weight` times.
  // Throws kConfig where there are not as many samples as planned for, kData where labels do not
  // have the predictions' shape (both are named).
  double accumulate(const Dataset& batch, double weight = 1);
  double accumulate(const ArrayView& x, const ArrayView& y, double weight = 1);
  // On samples [first, first + count) of the data.
  double accumulate(const Dataset& data, int64_t first, int64_t count, double weight = 1);
  // The loss alone, computed as in evaluate.
  double loss(const Dataset& batch);
  double loss(const Dataset& data, int64_t first, int64_t count);

  // One update of the optimizer by what was added up. Throws kConfig where that is nothing.
  void apply();
  // Forgets what was added up.
  void clear();

  // By the weights' names (Model::weight_names): what apply takes. After set_gradient the next
  // call is another of these, or apply. Throw kConfig with a did-you-mean.
  std::vector<float> gradient(const std::string& weight);
  void set_gradient(const std::string& weight, const std::vector<float>& values);

  // Throws kConfig where the rate follows a schedule.
  double learning_rate();
  void set_learning_rate(double rate);

  // The metrics of all samples since reset_metrics; the loss first.
  MetricValues metrics();
  void reset_metrics();

  int64_t updates() const;  // by apply
  MemoryUse memory();

  // Writes weights, the optimizer's state and counts to a folder that keeps the last ones. Between
  // apply and accumulate (kConfig). Throws kIo.
  void save_checkpoint(const std::string& folder, int keep = 3);
  // Goes on from the newest whole checkpoint of the folder, if there is one; returns its number of
  // updates, 0 where there is none. Throws kConfig where it is another run's.
  int64_t resume(const std::string& folder);

 private:
  class Impl;
  std::shared_ptr<Impl> impl_;
};

}  // namespace plimsoll
