// plimsoll fit: plan, train within the limit, write the result.

#include <unistd.h>

#include <CLI/CLI.hpp>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <memory>

#include "base/accounted.h"
#include "base/error.h"
#include "base/file.h"
#include "base/spill_folder.h"
#include "cli/bench_machine.h"
#include "cli/callback_options.h"
#include "cli/commands.h"
#include "cli/data_options.h"
#include "cli/exit_code.h"
#include "cli/options.h"
#include "cli/output_place.h"
#include "cli/profile_file.h"
#include "data/dataset_stages.h"
#include "report/plan_summary.h"
#include "report/run_summary.h"
#include "report/waiting.h"
#include "trace/run_log.h"
#include "train/checkpointer.h"
#include "train/limit_watch.h"
#include "train/session.h"

namespace plimsoll::cli {
namespace {

struct FitCommand {
  ModelOptions model;
  TrainingDataOptions data;
  int64_t epochs = 1;
  int64_t steps = 0;
  std::string shuffle;  // "": as the data ask for
  std::string output;
  std::string log;
  bool log_steps = false;
  CallbackOptions callbacks;
  std::string checkpoint;
  std::string checkpoint_every;
  int checkpoint_keep = 3;
  bool resume = false;
  bool profile = false;
  std::string profile_output;
};

train::Session* running = nullptr;
volatile std::sig_atomic_t stopped_by_signal = 0;

extern "C" void stop_running(int) {
  stopped_by_signal = 1;
  if (running != nullptr) running->request_stop();
}

// Ctrl-C and SIGTERM end the run behind the current step while one of these lives.
class StopOnSignal {
 public:
  StopOnSignal() {
    std::signal(SIGINT, stop_running);
    std::signal(SIGTERM, stop_running);
  }
  ~StopOnSignal() {
    std::signal(SIGINT, SIG_DFL);
    std::signal(SIGTERM, SIG_DFL);
    running = nullptr;
  }
  StopOnSignal(const StopOnSignal&) = delete;
  StopOnSignal& operator=(const StopOnSignal&) = delete;

  // The session that a signal stops from now on; null: none, it is told when there is one.
  void follow(train::Session* session) {
    running = session;
    if (session != nullptr && stopped_by_signal) session->request_stop();
  }
};

report::RunSummary summarize(const train::Session& session, const train::History& history) {
  report::RunSummary summary;
  summary.steps = history.steps;
  summary.seconds_per_step = history.seconds_per_step;
  summary.estimated_seconds_per_step = session.summary().seconds_per_step;
  fill_memory(session, summary);
  if (!history.epochs.empty()) summary.metrics = history.epochs.back().metrics;
  return summary;
}

// The run's checkpoints, where it has any; what a found one fixes goes into `command`.
std::unique_ptr<train::Checkpointer> open_checkpoints(FitCommand& command) {
  if (command.checkpoint.empty()) {
    if (!command.resume && command.checkpoint_every.empty()) return nullptr;
    throw Error(ErrorKind::kConfig,
                "--resume and --checkpoint-every: expected --checkpoint FOLDER beside them.");
  }
  train::CheckpointOptions options;
  options.folder = command.checkpoint;
  options.keep = command.checkpoint_keep;
  options.resume = command.resume;
  if (!command.checkpoint_every.empty()) {
    options.schedule = train::parse_schedule(command.checkpoint_every);
  }
  auto checkpoints = std::make_unique<train::Checkpointer>(
      options, [](const std::string& text) { std::fprintf(stderr, "%s\n", text.c_str()); });
  if (const train::CheckpointHead* head = checkpoints->found()) {
    command.model.seed = head->seed;
    if (command.shuffle.empty()) command.shuffle = data::to_string(head->shuffle);
    if (command.model.threads == 0) command.model.threads = head->threads;
  }
  return checkpoints;
}

std::unique_ptr<trace::RunLog> open_log(const FitCommand& command, const train::Position& start) {
  if (command.log.empty()) return nullptr;
  if (start == train::Position{}) return std::make_unique<trace::RunLog>(command.log);
  return std::make_unique<trace::RunLog>(command.log, start.steps, start.epoch);
}

train::FitOptions fit_options(const FitCommand& command, trace::RunLog* log, LogWriting& writing,
                              EpochLogs& logs, const std::unique_ptr<train::Session>& session) {
  train::FitOptions options;
  options.epochs = command.epochs;
  options.keep_epochs = false;  // a run may have millions
  if (command.steps > 0) options.steps = command.steps;
  options.shuffle = data::parse_shuffle(command.shuffle);
  options.progress = command.model.json ? nullptr : stderr;
  if (log != nullptr) {
    if (command.log_steps) {
      options.on_step = [log, &writing](int64_t step, double loss) {
        writing.attempt([&] { log->step(step, loss); });
      };
    }
  }
  options.on_epoch = [log, &writing, &logs, &session](const train::EpochResult& epoch) {
    if (log != nullptr) {
      writing.attempt([&] { log->epoch(epoch.epoch, epoch.metrics, epoch.seconds); });
    }
    logs.epoch(epoch, *session);
  };
  return options;
}

// Null where nothing happens at the ends of epochs.
std::unique_ptr<train::Callbacks> make_callbacks(const FitCommand& command, const Loaded& loaded,
                                                 const train::Session& session) {
  train::CallbackOptions options =
      read_callbacks(command.callbacks, command.checkpoint, command.data.data.set.spill_directory);
  if (!command.callbacks.keep_best.empty()) {
    options.on_best = [&command, &loaded](train::Session& best) {
      formats::save_model(command.callbacks.keep_best, loaded.file.model, &loaded.compile,
                          *best.state());
    };
  }
  if (!options.any()) return nullptr;
  return std::make_unique<train::Callbacks>(std::move(options), session);
}

// A run: the session that it is in now, and what outlives a session when the limit changes.
struct Run {
  FitCommand command;
  Loaded loaded;
  TrainingData data;
  train::SessionOptions choices;
  std::unique_ptr<train::Session> session;
  std::unique_ptr<train::Checkpointer> checkpoints;
  std::unique_ptr<train::Callbacks> callbacks;
  bool passed_limit = false;  // of a session before this one

  train::DataMemory memory_of(const TrainingData& opened) const {
    return {opened.resident,
            opened.train.wants_ahead(command.model.batch, data::parse_shuffle(command.shuffle)),
            opened.opening};
  }

  void open_session() {
    report::Waiting waiting(planning_text(choices.memory), command.model.json);
    train::SessionOptions telling = choices;
    telling.tell = [&waiting](const std::string& what) { waiting.go_on(what); };
    session = std::make_unique<train::Session>(loaded.file.model, loaded.compile, telling,
                                               data.rows, memory_of(data));
    choices.times.tune = false;  // once a run
  }
};

// Takes the run's state to a session within another limit. Where there is none, the run goes on in
// one like that before.
void plan_anew(Run& run, Bytes limit, const train::Position& position) {
  train::BestWeights kept("", run.choices.spill_directory);
  kept.save(*run.session->state(), 0);
  run.passed_limit = run.passed_limit || run.session->memory().passed_limit;
  run.choices.whole_process = false;
  train::SessionOptions before = run.choices;
  before.threads = run.session->plan().threads;
  run.session.reset();
  run.choices = before;
  run.choices.memory = limit;
  run.choices.saved_plan.clear();
  std::string what = "planned anew at step " + std::to_string(position.steps);
  try {
    run.open_session();
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kBudget) throw;
    run.choices = before;
    run.open_session();
    what = "not enough, the run goes on as planned before (" + std::string(error.what()) + ")";
  }
  run.session->initialize(nullptr);
  run.session->restore(*kept.load(0), position.steps);
  if (run.checkpoints) run.checkpoints->go_on_in(*run.session);
  const report::PlanSummary& plan = run.session->summary();
  std::fprintf(stderr, "the limit is now %s: %s; predicted peak %s, block set %d\n",
               to_string(limit).c_str(), what.c_str(), to_string(plan.predicted_process).c_str(),
               plan.block_set);
}

// Trains to the end, or to a signal to stop; a limit that changes takes it from session to session.
train::History fit(Run& run, train::FitOptions options) {
  train::LimitWatch watch;
  StopOnSignal guard;
  std::optional<Bytes> limit;
  options.on_position = [&](const train::Position& position, bool epoch_ended) {
    if (run.checkpoints) run.checkpoints->pass(*run.session, position, epoch_ended);
    if (epoch_ended) return;
    limit = watch.poll(run.session->summary().predicted_process);
    if (limit) run.session->request_stop();
  };
  if (run.callbacks) {
    options.ends = [&](const train::EpochResult& result) {
      return run.callbacks->end_epoch(*run.session, result);
    };
  }
  while (true) {
    guard.follow(run.session.get());
    train::History history = run.session->fit(run.data.train, run.data.validation.get(), options);
    const bool more = !options.steps || history.steps < *options.steps;
    if (!limit || stopped_by_signal || !more) return history;
    guard.follow(nullptr);
    plan_anew(run, *limit, history.position);
    options.start = history.position;
    limit.reset();
  }
}

// What is shown before the first step.
report::PlanSummary describe(const Run& run) {
  report::PlanSummary plan = run.session->summary();
  plan.data = data::describe(run.data.train) + ", shuffle " + run.command.shuffle;
  return plan;
}

// The table, and the file where one is named. The run is over: its memory is free for finding out
// what this machine could do.
void report_profile(Run& run, report::Profile profile) {
  const FitCommand& command = run.command;
  const std::string& path = command.profile_output;
  if (!command.profile && path.empty()) return;
  const std::optional<Bytes> limit = run.choices.memory;
  run.checkpoints.reset();
  run.callbacks.reset();
  run.session.reset();
  profile.machine = measure_machine(command.model.threads, room_within(limit));
  if (command.profile) std::fputs(("\n" + report::to_text(profile) + "\n").c_str(), stderr);
  if (!path.empty()) write_profile(path, profile);
}

void save(Run& run, const std::string& path) {
  const AccountedScope scope(MemoryPart::kFiles);
  formats::save_model(path, run.loaded.file.model, &run.loaded.compile, *run.session->state());
}

// Where the trained model cannot be written it is written elsewhere, and the error says where.
void save_output(Run& run) {
  const std::string& path = run.command.output;
  try {
    save(run, path);
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kIo) throw;
    std::string other = "/plimsoll-" + std::to_string(::getpid()) + "-" +
                        std::filesystem::path(path).filename().string();
    try {
      other.insert(0, choose_spill_folder(run.command.data.data.set.spill_directory));
      save(run, other);
    } catch (const Error&) {
      throw error;
    }
    throw Error(ErrorKind::kIo,
                std::string(error.what()) + " The trained model is in " + other + " instead.");
  }
}

// Files and messages behind the last step; `logged`: every log is whole.
int finish(Run& run, const train::History& history, bool logged) {
  const FitCommand& command = run.command;
  const bool kept = !run.checkpoints || run.checkpoints->finish(*run.session, history.position);
  if (run.callbacks && !history.interrupted) run.callbacks->finish(*run.session);
  if (!command.output.empty()) save_output(run);
  report::RunSummary summary = summarize(*run.session, history);  // of the writing too
  summary.passed_limit = summary.passed_limit || run.passed_limit;
  summary.left_out_metrics = run.loaded.left_out_metrics;
  const report::Profile profile = run.session->profile();
  if (command.model.json) {
    std::fputs((report::to_json(summary) + "\n").c_str(), stdout);
  } else {
    std::fputs(report::to_text(summary).c_str(), stderr);
    if (!command.output.empty()) std::fprintf(stderr, "wrote %s\n", command.output.c_str());
  }
  report_profile(run, profile);
  if (!history.interrupted && !logged) return kFileFailure;
  if (!history.interrupted) return summary.passed_limit ? kPassedLimit : kDone;
  return kept ? kInterrupted : kFileFailure;
}

int run(FitCommand command) {
  if (!command.output.empty()) {
    formats::check_output_name(command.output);
    check_place(command.output);
  }
  if (!command.callbacks.keep_best.empty()) check_place(command.callbacks.keep_best);
  if (!command.shuffle.empty()) data::parse_shuffle(command.shuffle);  // refused before anything
  if (command.callbacks.histogram_every > 0 && command.callbacks.tensorboard.empty()) {
    throw Error(ErrorKind::kConfig, "--histograms: expected --tensorboard FOLDER beside it.");
  }
  std::unique_ptr<train::Checkpointer> checkpoints = open_checkpoints(command);
  Loaded loaded = load(command.model, true, true);
  TrainingData data = open_training(command.data, command.model.seed, loaded);
  if (command.shuffle.empty()) command.shuffle = data::to_string(data.train.usual_shuffle());
  Run run{std::move(command),
          std::move(loaded),
          std::move(data),
          {},
          nullptr,
          std::move(checkpoints),
          nullptr,
          false};
  run.choices = session_options(run.command.model, run.command.data.data.set.spill_directory);
  run.choices.profile = run.command.profile || !run.command.profile_output.empty();
  run.open_session();
  const report::PlanSummary plan = describe(run);
  if (!run.command.model.json) std::fputs((report::to_text(plan, false) + "\n").c_str(), stderr);
  run.session->initialize(run.loaded.file.weights.get());
  run.callbacks = make_callbacks(run.command, run.loaded, *run.session);
  if (run.checkpoints && run.callbacks) run.checkpoints->attach(*run.callbacks);
  train::Position start;
  if (run.checkpoints) {
    start = run.checkpoints->restore(*run.session, run.data.rows.train,
                                     data::parse_shuffle(run.command.shuffle));
  }
  const std::unique_ptr<trace::RunLog> log = open_log(run.command, start);
  EpochLogs logs = open_epoch_logs(run.command.callbacks, start.epoch, report::to_text(plan, true),
                                   *run.session);
  LogWriting writing;
  train::FitOptions options = fit_options(run.command, log.get(), writing, logs, run.session);
  options.start = start;
  if (run.callbacks && run.callbacks->state().stopped) options.epochs = start.epoch;  // it ended
  const train::History history = fit(run, std::move(options));
  const bool cut = writing.ended() || logs.csv_writing.ended() || logs.event_writing.ended();
  return finish(run, history, !cut);
}

}  // namespace

Command add_fit(CLI::App& app) {
  auto options = std::make_shared<FitCommand>();
  CLI::App* command = app.add_subcommand("fit", "Train a model within a memory limit");
  add_model_options(*command, options->model);
  add_training_data_options(*command, options->data, DataNeed::kLabelled);
  command->add_option("--epochs", options->epochs, "Passes over the data")
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 40));
  command->add_option("--steps", options->steps, "Stop after so many steps")
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 50));
  command->add_option("--shuffle", options->shuffle,
                      "full, block (local reads) or none; default: block beyond 1 GiB, else full");
  command->add_flag_callback(
      "--no-shuffle", [options] { options->shuffle = "none"; }, "Take samples in the file's order");
  command->add_option("--output", options->output, "Trained model: .keras, or .json for structure");
  command->add_option("--log", options->log, "JSON lines: one object per epoch");
  command->add_flag("--log-steps", options->log_steps, "… and one per step");
  add_callback_options(*command, options->callbacks);
  command->add_option("--checkpoint", options->checkpoint, "Folder for checkpoints of the run");
  command->add_option("--checkpoint-every", options->checkpoint_every,
                      "epoch, 500steps, 10min …; default: every epoch and every 10 minutes");
  command->add_option("--checkpoint-keep", options->checkpoint_keep, "Checkpoints that stay")
      ->check(CLI::Range(1, 1000));
  command->add_flag("--resume", options->resume, "Go on from the newest checkpoint");
  command->add_flag("--profile", options->profile, "Print where the time of a step goes");
  command->add_option(
      "--profile-output", options->profile_output,
      "File for that as JSON; .html: a page; .trace.json: for viewers of Chrome's traces");
  return [options] { return run(*options); };
}

}  // namespace plimsoll::cli
