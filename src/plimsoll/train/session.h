#pragma once

// A run: a model planned within a limit, its state in the arena, and the loops over data.
//
//   Session s(model, compile, options, rows)      plans, or throws kBudget; nothing is touched yet
//   s.initialize() / s.load(weights)              first touch of the state
//   s.fit(batches, validation, callbacks)         epochs → steps → programs
//
// All that can be refused is refused by the constructor. A step allocates nothing. Where several
// sessions live at once, each one's limit counts what those made before it hold.

#include <array>
#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/tensor_io.h"
#include "data/dataset.h"
#include "exec/executor.h"
#include "layers/training/programs.h"
#include "planning/sharing.h"
#include "report/profile.h"
#include "report/progress.h"
#include "train/checkpoint.h"
#include "train/limit_check.h"
#include "train/memory_report.h"
#include "train/not_finite.h"
#include "train/prediction_turns.h"
#include "train/step_traffic.h"

namespace plimsoll::train {

struct SessionOptions {
  int64_t batch = 32;
  // The limit, kernels, and how far the search goes; what it says of data is not used.
  planning::PlanRequest plan{};
  // Who shares every step with this process, as plan.ranks says; null: nobody. It outlives this.
  Ranks* ranks = nullptr;
  std::optional<int> shard{};  // what they hold in parts; none: as little as fits (sharing.h)
  bool profile = false;        // measure every step of the plan
  bool guarded = true;         // without a limit refuses what takes nearly all that there is
  // Whether what the process took before counts towards the limit too, or only what it takes from
  // now on (limit_check.h).
  bool whole_process = false;
  // Called between two steps, of whatever program; may throw, which ends the call.
  std::function<void()> between_steps = {};
  // Called once, between two steps or by memory(), where the process has passed the limit.
  std::function<void(Bytes measured, Bytes limit)> on_passed_limit = {};
};

// Tells what opening took: a run's data, and after them those that are evaluated on.
planning::DataOpening opening_of(const data::Dataset& dataset,
                                 const data::Dataset* validation = nullptr);

// What a program's inputs want of data.
std::vector<data::InputBinding> bindings_of(const std::vector<layers::ProgramInput>& inputs);

// No plan within the limit, with the whole answer for who has more room than an error's sentence.
class DoesNotFit final : public Error {
 public:
  explicit DoesNotFit(report::PlanSummary summary);
  const report::PlanSummary& summary() const { return *summary_; }

 private:
  std::shared_ptr<const report::PlanSummary> summary_;
};

using Metrics = std::vector<std::pair<std::string, double>>;

struct EpochResult {
  int64_t epoch = 0;  // from 1
  Metrics metrics;    // loss first; validation's after them, with "val_"
  double seconds = 0;
};

struct FitOptions {
  int64_t epochs = 1;
  std::optional<int64_t> steps;  // stop after so many in all, those before `start` included
  NotFinite not_finite = NotFinite::kRefused;  // of a step's loss
  data::Shuffle shuffle = data::Shuffle::kFull;
  report::ProgressView* progress = nullptr;  // null: nobody looks
  // Called after every step and epoch; either may be empty.
  std::function<void(int64_t step, double loss)> on_step;
  std::function<void(const EpochResult&)> on_epoch;
  std::function<void(bool begins)> on_validation = {};  // around it; may be empty
  // Called after every whole epoch, before on_position; true: training ends here. May be empty.
  std::function<bool(const EpochResult&)> ends;
  bool keep_epochs = true;  // in History; false: the last one alone, however many there are
  // Set from anywhere, it ends training after the current step, as request_stop does; null: none.
  const std::atomic<bool>* stop = nullptr;
  Position start;  // where a resumed run goes on
  // Called after every step, and after every epoch with its validation (`epoch_ended`).
  std::function<void(const Position&, bool epoch_ended)> on_position;
};

struct History {
  std::vector<EpochResult> epochs;
  int64_t steps = 0;
  Position position;            // where it ended
  double seconds_per_step = 0;  // median
  double processor_share = 0;   // of the time of its threads in steps; 0: not known
  StepTraffic traffic;          // with other ranks, without the steps before `start`
  bool interrupted = false;     // by request_stop() or FitOptions::stop
};

class Session {
 public:
  // Throws kBudget with the numbers of the answer where the limit cannot be met.
  Session(const layers::Model& model, const layers::CompileOptions& compile,
          const SessionOptions& options, const planning::RowCounts& rows,
          const planning::DataMemory& data);
  ~Session();

  const report::PlanSummary& summary() const { return summary_; }
  const layers::BuiltPrograms& programs() const { return run_.lowered.built; }
  const plan::Plan& plan() const { return run_.plan; }

  // The end of a fit, where the optimizer keeps averages of weights (use_ema): they take the
  // weights' places, as in Keras.
  void take_averages();
  // Runs the `initialize` program, unless `weights` has all that it would write, and takes what
  // `weights` has (null: nothing). Throws kModel naming the tensor where a shape differs.
  void initialize(TensorSource* weights);

  // Takes the tensors that this run has variables for, between steps; metrics count on.
  void take_state(TensorSource& tensors);
  // The same where most of them lie in memory and are what the variables hold already: what does
  // not differ is not written, so that packs of weights stay.
  void take_changed(TensorSource& tensors);
  // Whether the variable of that name holds other bytes than the tensor, as far as can be told
  // without reading files: there, true. False where this run has no such variable.
  bool differs(TensorSource& tensors, size_t index);

  // A hash of all programs, the same on ranks that share them.
  std::string fingerprint() const;
  // What a checkpoint says of this run, but for where it stands; `rows` of training data.
  CheckpointHead describe(int64_t rows, data::Shuffle shuffle) const;
  // Takes every state variable from a checkpoint written after `steps` steps. Throws kModel naming
  // the variable that is missing or of another shape.
  void restore(TensorSource& tensors, int64_t steps);

  int64_t steps() const { return step_; }
  // None where it follows a schedule, or without an optimizer.
  std::optional<double> learning_rate() const;
  void set_learning_rate(double rate);
  History fit(data::Dataset& train, data::Dataset* validation, const FitOptions& options);
  Metrics evaluate(data::Dataset& dataset);
  // Predictions go to `sink` row by row, in order; where ranks take batches by turns, to the first
  // rank's.
  void predict(data::Dataset& dataset, OutputSink& sink, PredictionTurns* turns = nullptr);

  // For loops of the user's own (accumulator.h): one program on rows [first, first + count) of a
  // data set, in their order; returns the loss. `program` is "train" or "evaluate", and there is
  // one for so many rows. `checked`: numbers that are refused are refused before anything changes.
  bool has_program(std::string_view program, int64_t rows) const;
  double run_rows(const char* program, data::Dataset& dataset, int64_t first, int64_t count,
                  bool checked = false);
  void run_apply();
  // Counts what random draws are keyed by.
  void set_steps(int64_t steps) { step_ = steps; }
  // The whole of a state variable. Throw kConfig for an unknown name.
  void read_state(const std::string& name, std::span<std::byte> destination) const;
  void write_state(const std::string& name, std::span<const std::byte> source);
  // The metrics of what ran since reset_metrics; the loss first.
  Metrics read_metrics() const;
  void reset_metrics();
  // What metrics have counted, for another session of the same model and metrics.
  std::vector<std::byte> save_metrics() const;
  void restore_metrics(std::span<const std::byte> saved);

  // The state as named tensors, read straight from the arena: what this rank holds of it.
  std::unique_ptr<TensorSource> state();
  // All of it, for the first rank where that wants it (shared_state.h); all ranks call it.
  void with_whole_state(bool wanted, const std::function<void(TensorSource&)>& use);
  const std::vector<ops::ShardedState>& sharded() const { return run_.lowered.sharded; }
  MemoryReport memory() const;
  // Beside the engine: the arena, structures, data.
  Bytes held() const { return held_; }
  // Empty where the options did not ask for it.
  report::Profile profile() const;
  // The profile begins anew, after first runs that are not like the others. Between steps.
  void forget_profile();
  // Ends fit after the current step; may be called from any thread and from a signal handler.
  void request_stop() { stop_.store(true, std::memory_order_relaxed); }
  // A stop that was asked for before is forgotten: the next fit runs.
  void forget_stop() { stop_.store(false, std::memory_order_relaxed); }

 private:
  void check_limit(bool closely) const;
  void end_run() const;  // what follows every run of a program
  data::BatchSource bind(data::Dataset& dataset, const std::vector<layers::ProgramInput>& inputs,
                         data::Shuffle shuffle) const;
  size_t program_for(const char* name, int64_t rows) const;
  struct NamedBytes {
    std::string name;
    Bytes bytes;
  };
  bool has_whole_state(TensorSource* weights) const;
  // The state variables that metrics count in.
  const std::vector<NamedBytes>& metric_states() const;
  std::vector<float> read_floats(const std::string& state) const;
  struct Loop;
  void run_epoch(Loop& loop, const FitOptions& options);
  void end_epoch(Loop& loop, const FitOptions& options, double start);
  bool stopped(const FitOptions& options) const;
  bool told_to_stop(const FitOptions& options) const;
  void agree_on_stop(const FitOptions& options);
  bool done(const Loop& loop, const FitOptions& options) const;
  void take(TensorSource& tensors, size_t index, const graph::StateVariable& state);
  void start_slots(TensorSource* weights);
  // What take_changed() and differs() know a name by.
  struct KnownState {
    graph::StateVariable variable;
    std::span<const std::byte> memory;  // empty: it lies in the spill file
  };
  const std::map<std::string, KnownState, std::less<>>& states_by_name();
  void run_without_batch(const char* program);
  double run_step(data::BatchSource& batches, int64_t epoch, int64_t index, const char* program,
                  bool training);
  void run_program(size_t index, backend::StepContext context, InputSource& batch,
                   OutputSink& sink);
  Metrics evaluate_batches(data::BatchSource& batches);
  report::ProgressState progress_state(const data::BatchSource& batches) const;

  SessionOptions options_;
  report::PlanSummary summary_;
  planning::RunnablePlan run_;
  std::unique_ptr<exec::Executor> executor_;
  mutable std::optional<LimitCheck> limit_check_;  // a look changes what was seen, not the run
  Bytes held_;                                     // beside the engine, which all sessions share
  std::map<std::string, KnownState, std::less<>> states_by_name_;  // made when it is asked for
  mutable std::optional<std::vector<NamedBytes>> metric_states_;   // likewise
  int64_t step_ = 0;
  std::atomic<bool> stop_{false};
  bool stop_agreed_ = false;  // of ranks
};

}  // namespace plimsoll::train
