#pragma once

// A model and all that runs on it: the one way in for every face.
//
//   run::Run run(run::load(model_request, settings, needs, listener));
//   run::FitResult result = run.fit(request, listener);
//   run.save("trained.keras");
//
// Between calls the weights and the optimizer's state are kept: in the arena of the last fit, which
// is used again when the next fit is alike, or in a nameless temporary file.
//
//   state in the store ──fit──▶ state in the session ──next call that is not alike──▶ store
//
// At most one session exists at any time, so that limits hold for the process. One thread at a
// time, but for request_stop and change_limit. Errors: kConfig, kModel, kData, kIo, and kBudget
// where a limit cannot be met; then nothing has changed.

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/tensor_io.h"
#include "layers/model/model.h"
#include "layers/training/programs.h"
#include "planning/planning.h"
#include "report/profile.h"
#include "report/run_summary.h"
#include "run/listener.h"
#include "run/model.h"
#include "run/open_data.h"
#include "run/request.h"
#include "run/state_store.h"
#include "train/session.h"

namespace plimsoll::run {

struct FitResult {
  train::History history;
  report::RunSummary summary;
  report::Profile profile;      // empty where the settings do not ask for it
  bool logs_whole = true;       // every log that was asked for was written to its end
  bool ended_early = false;     // by early stopping, in this call or before
  bool checkpoint_kept = true;  // where it ended is on disk, or no checkpoints were asked for
};

struct Evaluation {
  train::Metrics metrics;  // the loss first
  report::RunSummary summary;
};

// A training loop of somebody's own (train/accumulator.h).
struct StepsRequest {
  Settings settings;
  int64_t short_batch = 0;  // samples of a call with less than settings.batch; 0: there are none
  bool sample_weights = false;
  std::vector<std::vector<int64_t>> weight_shapes{};  // as CompileOptions has them
  std::vector<std::vector<int64_t>> target_shapes{};  // of all labels (data::target_shapes)
  bool evaluates = true;                              // whether losses alone are asked for too
  Bytes data;                                         // what data sets may hold
  int64_t seen_steps = 0;                             // as in FitRequest
};

// A session that is kept from call to call for one kind of calls, whose state lies elsewhere.
struct KeptRequest {
  enum class Kind { kTrain, kEvaluate, kPredict };
  Kind kind = Kind::kPredict;
  Settings settings;
  int64_t short_batch = 0;      // as in StepsRequest
  bool sample_weights = false;  // of training and evaluation
  std::vector<std::vector<int64_t>> weight_shapes{};
  std::vector<std::vector<int64_t>> target_shapes{};
  Bytes data;                   // what data sets and predictions may hold
  bool go_on_counting = false;  // metrics go on, in a new session too
  bool has_state = false;       // the session has state that lies nowhere else: it does not end
};

// What the session planned and took, into what is told of a run.
void fill_memory(const train::Session& session, report::RunSummary& summary);

class Run {
 public:
  // For a command that ends after one call: initial weights need not be kept for another.
  explicit Run(LoadedModel loaded);
  // `compile` none: not compiled yet; `weights` null: they are made when they are needed.
  explicit Run(layers::Model model, std::optional<layers::CompileOptions> compile = {},
               std::unique_ptr<TensorSource> weights = nullptr);
  ~Run();
  Run(const Run&) = delete;
  Run& operator=(const Run&) = delete;

  const layers::Model& model() const { return model_; }
  void set_trainable(const std::string& layer, bool trainable);
  // The optimizer's state starts anew. Throws kModel where it does not fit the outputs.
  void compile(layers::CompileOptions compile);
  // "full" or "slice:N".
  void set_batch_norm(const std::string& statistics);
  std::string batch_norm() const;

  // What that fit would take; nothing is taken. Without data the answer is for full batches.
  // `why`: a layer whose values in the chosen plan are told of; empty: none.
  planning::PlannedRun plan(const FitRequest& request, const std::string& why,
                            Listener& listener) const;
  FitResult fit(const FitRequest& request, Listener& listener);
  Evaluation evaluate(const EvaluateRequest& request, Listener& listener);
  // Predictions go to the sink that `open` returns for so many rows, row by row, in order; it is
  // asked for when there is a plan. `held` is what it holds in memory for each row. Ranks take
  // batches by turns, and the first one's sink has all rows (train/prediction_turns.h).
  using OpenSink = std::function<OutputSink&(int64_t rows)>;
  train::MemoryReport predict(const PredictRequest& request, const OpenSink& open, Bytes held,
                              Listener& listener);
  // Data as the model takes them, for loops of somebody's own.
  std::shared_ptr<data::Dataset> open(const DataRequest& request, Listener& listener) const;
  // One step on all rows of `dataset`, which are as many as settings.batch or short_batch, of
  // training or (`train` false) of evaluation; returns its loss. Metrics count on until they are
  // reset. The session is kept for the next one.
  double step(const StepsRequest& request, data::Dataset& dataset, bool train, Listener& listener);
  void reset_metrics();
  // Runs `work` in the kept session of the request, which has taken what differs in `state`; where
  // another one was kept, that one ends. Errors end the session, unless it has state (has_state).
  void keep(const KeptRequest& request, TensorSource& state, Listener& listener,
            const std::function<void(train::Session&)>& work);
  // The session of a loop of somebody's own, made anew where another call took its place.
  train::Session& steps(const StepsRequest& request);
  // Runs `work` in such a session, which has taken what differs in `state`. Where another one was
  // there, what it had added up goes on (`go_on`) or begins anew. An error of `work` alone does not
  // end the session.
  void steps_on(const StepsRequest& request, TensorSource& state, bool go_on, Listener& listener,
                const std::function<void(train::Session&)>& work);

  // Writes the model as it is now (formats/model_file.h).
  void save(const std::string& path);
  // The same with this state. Where the file cannot be written it is written to the folder for
  // spill files (empty: the first that will do), and the error (kIo) says where.
  void save_or_elsewhere(const std::string& path, const std::string& spill_directory,
                         TensorSource& tensors) const;
  // The weights where they are now, made where there were none; valid until the next call.
  TensorSource& state();
  // There is a tensor of that name and size.
  void set_weight(const std::string& name, std::span<const std::byte> bytes);
  // Takes tensors in place of the ones that it has. Without a session these are all that there is:
  // variables of the optimizer that are not among them start anew.
  void adopt(std::unique_ptr<TensorSource> state);
  // Whether a call runs, of this thread or another.
  bool is_running() const { return busy_; }
  // Whether a session holds what was trained; otherwise it is in the store.
  bool has_session() const { return session_ != nullptr; }
  // Ends the session without keeping its state: its memory is free.
  void close();
  // There is a session: what it holds beside the engine, and one of its variables.
  Bytes held() const { return need_session().held(); }
  void read_session(const std::string& name, std::span<std::byte> destination) const {
    need_session().read_state(name, destination);
  }
  // Whether it holds other bytes than the tensor (train::Session::differs).
  bool session_differs(TensorSource& tensors, size_t index) const {
    return need_session().differs(tensors, index);
  }

  // These ask the session that trains, between its steps and in calls of the listener; kConfig
  // where there is none. What was counted since the epoch began, the loss first.
  train::Metrics metrics();
  // Those of which Keras tells an array even where it has one number.
  std::vector<std::string> array_metrics() const;
  train::MemoryReport memory();
  // Without effect where the rate follows a schedule.
  void set_learning_rate(double rate);

  // Ends the fit that runs, or else the next one, after the current step. May be called from any
  // thread and from a signal handler.
  void request_stop() { stop_ = true; }
  // Takes the fit that runs to a plan within another limit after the current step. From any thread.
  void change_limit(Bytes limit) { asked_limit_ = limit.count(); }

 private:
  friend class Fitting;
  class Telling;

  // What two calls must share for the second to go on in the first one's session.
  struct SessionKey {
    Settings settings;
    planning::RowCounts rows;
    planning::DataMemory data;
    bool sample_weights = false;
    std::vector<std::vector<int64_t>> weight_shapes{};  // as CompileOptions has them
    std::vector<std::vector<int64_t>> target_shapes{};
    bool accumulates = false;
    friend bool operator==(const SessionKey&, const SessionKey&) = default;
  };

  SessionKey key_of(const StepsRequest& request) const;
  const layers::CompileOptions& need_compile(const char* what) const;
  void refuse_while_running(const char* what) const;
  void refuse_no_rows(int64_t batch, int64_t rows) const;
  // A session by the key, without weights.
  std::unique_ptr<train::Session> make_session(const layers::CompileOptions& compile,
                                               const SessionKey& key, Listener& listener);
  class Busy;
  // The training session by the key, without weights; null: the one that there is goes on.
  std::unique_ptr<train::Session> prepare(const SessionKey& key, Listener& listener);
  // A session that has its weights becomes the training session.
  void take_over(std::unique_ptr<train::Session> session, const SessionKey& key);
  train::Session& need_session() const;
  // Moves the state from the session to the store and ends the session.
  void park(bool with_metrics = false, const std::string& folder = "");
  void ensure_state();
  void write_model(const std::string& path, TensorSource& tensors) const;
  void keep_initial(train::Session& session);

  layers::Model model_;
  std::optional<layers::CompileOptions> compile_;
  std::vector<std::string> left_out_metrics_;
  StateStore store_;
  bool once_ = false;
  bool told_precision_ = false;
  std::unique_ptr<train::Session> session_;
  std::unique_ptr<TensorSource> session_state_;  // a view of session_, where state() made one
  SessionKey key_;                               // of session_
  Listener* listener_ = nullptr;                 // of the call that runs
  std::atomic<bool> busy_ = false;               // a call runs
  std::atomic<bool> stop_ = false;
  std::atomic<int64_t> asked_limit_ = 0;  // bytes; 0: none
};

}  // namespace plimsoll::run
