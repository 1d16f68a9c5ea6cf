#pragma once

// A model with its state, and the one session that may be alive. Internal to api.
//
//   state in the store ──fit──▶ state in the session ──next call that is not alike──▶ store
//
// At most one session exists at any time, so that limits hold for the process.

#include <memory>
#include <optional>
#include <string>

#include "api/model.h"
#include "api/state_store_impl.h"
#include "api/trainer.h"
#include "data/dataset.h"
#include "layers/model/model.h"
#include "layers/training/programs.h"
#include "train/session.h"

namespace plimsoll {

class Model::Impl {
 public:
  explicit Impl(layers::Model model) : model_(std::move(model)) {}
  // From a file.
  Impl(layers::Model model, std::optional<layers::CompileOptions> compile,
       std::unique_ptr<TensorSource> weights);

  const layers::Model& model() const { return model_; }
  void set_trainable(const std::string& layer, bool trainable);
  void compile(layers::CompileOptions compile);
  void set_batch_norm(const std::string& statistics);
  std::string batch_norm() const;

  PlanAnswer plan(const RunOptions& options) const;
  // The session of a trainer, made anew where another call took its place.
  train::Session& start_steps(const TrainerOptions& options, Bytes data);
  History fit(data::Dataset& dataset, data::Dataset* validation, const FitOptions& options);
  MetricValues evaluate(data::Dataset& dataset, const RunOptions& options);
  // `held` is what the sink holds in memory.
  void predict(data::Dataset& dataset, const RunOptions& options, OutputSink& sink, Bytes held);
  void save(const std::string& path);

  // The weights where they are now, made where there were none; valid until the next call.
  TensorSource& state();
  void set_weight(const std::string& name, std::span<const std::byte> bytes);

 private:
  // What two calls of fit must share for the second to go on in the first one's session.
  struct FitKey {
    int64_t batch = 0;
    std::optional<Bytes> memory;
    int threads = 0;
    std::string backend;
    std::string times;
    bool tune = false;
    uint64_t seed = 0;
    int64_t train_rows = 0;
    int64_t evaluate_rows = 0;
    Bytes data;
    Bytes data_ahead;
    planning::DataOpening data_opening{};
    bool sample_weights = false;
    std::vector<std::vector<int64_t>> weight_shapes{};  // as CompileOptions has them
    bool accumulates = false;
    friend bool operator==(const FitKey&, const FitKey&) = default;

    // What the options of a run by epochs and of one by steps have in common.
    template <typename Options>
    static FitKey of(const Options& options) {
      FitKey key;
      key.batch = options.batch;
      key.memory = options.memory;
      key.threads = options.threads;
      key.backend = options.backend;
      key.times = options.times;
      key.tune = options.tune;
      key.seed = options.seed;
      return key;
    }
  };

  const layers::CompileOptions& need_compile(const char* what) const;
  // Moves the state from the session to the store and ends the session.
  void park();
  // Makes initial weights where there are none.
  void ensure_state();
  // A session for evaluation or prediction, with the model's weights.
  std::unique_ptr<train::Session> make_session(const layers::CompileOptions& compile,
                                               const RunOptions& options,
                                               const planning::RowCounts& rows,
                                               const train::DataMemory& data);
  // Keeps weights that a session made.
  void keep_initial(train::Session& session);
  void start_fit(const FitKey& key);

  layers::Model model_;
  std::optional<layers::CompileOptions> compile_;
  api::StateStore store_;
  std::unique_ptr<train::Session> session_;
  std::unique_ptr<TensorSource> session_state_;  // a view of session_, where state() made one
  FitKey key_;                                   // of session_
};

}  // namespace plimsoll
