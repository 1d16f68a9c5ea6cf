#pragma once

// One fit, from its request to its files. Internal to run.
//
// The model, its session and its state belong to Run; this holds what lives as long as the fit:
// data, checkpoints, callbacks, logs, and the limit that it is in.

#include <exception>
#include <memory>
#include <optional>

#include "run/logs.h"
#include "run/run.h"
#include "train/callbacks.h"
#include "train/checkpointer.h"
#include "train/limit_watch.h"

namespace plimsoll::run {

class Fitting {
 public:
  Fitting(Run& run, const FitRequest& request, Listener& listener);

  FitResult run();

 private:
  // What can be refused before anything is opened.
  void open_checkpoints();
  void open_data();
  void open_callbacks();
  void open_logs(const report::PlanSummary& plan, const train::Position& start);
  report::PlanSummary describe(const train::Session& session) const;
  train::FitOptions options(const train::Position& start);
  train::History train(train::FitOptions options);
  // Why there is no session within a limit; the error, where it is this rank's.
  struct Refused {
    std::string why;
    std::exception_ptr error;
  };
  std::optional<Refused> go_on(int64_t steps);
  void plan_anew(std::optional<Bytes> limit, const train::Position& position);
  std::string limit_text(std::optional<Bytes> changed) const;
  bool has_more_than_next(const train::Position& at) const;
  bool agree_to_go_on(const train::History& history, std::optional<Bytes> limit) const;
  int sharers() const;
  FitResult finish(train::History history);
  // Throws where ranks would not train alike; does nothing in one process.
  void expect_equal_plans(const train::Session& planned) const;
  train::Session& session() const { return *run_.session_; }
  data::Shuffle shuffle() const { return data::parse_shuffle(request_.shuffle); }

  Run& run_;
  FitRequest request_;  // completed: seed, threads and order are the checkpoint's
  Listener& listener_;
  Run::SessionKey key_;
  OpenedData data_;
  std::unique_ptr<train::Checkpointer> checkpoints_;
  std::unique_ptr<train::Callbacks> callbacks_;
  std::unique_ptr<Logs> logs_;
  bool leads_ = true;          // writes files and tells; of ranks, the first one
  bool keeps_best_ = false;    // the model after its best epoch, whoever writes it
  bool passed_limit_ = false;  // of a session before this one
};

// Refuses what can be refused before a model or data are opened: places that cannot be written to,
// spellings, options that need others. Throws kConfig, kIo.
void check(const FitRequest& request);

}  // namespace plimsoll::run
