// plimsoll fit: plan, train within the limit, write the result.

#include <CLI/CLI.hpp>
#include <csignal>
#include <cstdio>
#include <memory>

#include "base/error.h"
#include "base/file.h"
#include "cli/callback_options.h"
#include "cli/commands.h"
#include "cli/data_options.h"
#include "cli/exit_code.h"
#include "cli/options.h"
#include "data/dataset_stages.h"
#include "report/plan_summary.h"
#include "report/profile_page.h"
#include "report/run_summary.h"
#include "trace/run_log.h"
#include "train/checkpointer.h"
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

extern "C" void stop_running(int) {
  if (running != nullptr) running->request_stop();
}

// Ctrl-C and SIGTERM end the run behind the current step while one of these lives.
class StopOnSignal {
 public:
  explicit StopOnSignal(train::Session& session) {
    running = &session;
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
};

report::RunSummary summarize(const train::Session& session, const train::History& history) {
  const train::MemoryReport memory = session.memory();
  report::RunSummary summary;
  summary.steps = history.steps;
  summary.seconds_per_step = history.seconds_per_step;
  summary.planned_arena = memory.planned_arena;
  summary.measured_arena = memory.measured_arena;
  summary.predicted_process = memory.predicted_process;
  summary.measured_process = memory.measured_process;
  summary.limit = memory.limit;
  summary.block_set = session.summary().block_set;
  summary.kernel_set = session.summary().kernel_set;
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

train::FitOptions fit_options(const FitCommand& command, trace::RunLog* log, EpochLogs& logs,
                              const train::Session& session) {
  train::FitOptions options;
  options.epochs = command.epochs;
  if (command.steps > 0) options.steps = command.steps;
  options.shuffle = data::parse_shuffle(command.shuffle);
  options.progress = command.model.json ? nullptr : stderr;
  if (log != nullptr) {
    if (command.log_steps) {
      options.on_step = [log](int64_t step, double loss) { log->step(step, loss); };
    }
  }
  options.on_epoch = [log, &logs, &session](const train::EpochResult& epoch) {
    if (log != nullptr) log->epoch(epoch.epoch, epoch.metrics, epoch.seconds);
    logs.epoch(epoch, session.memory());
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

// The table, and the file where one is named.
void report_profile(const FitCommand& command, const train::Session& session) {
  const std::string& path = command.profile_output;
  if (!command.profile && path.empty()) return;
  const report::Profile profile = session.profile();
  if (command.profile) std::fputs(("\n" + report::to_text(profile) + "\n").c_str(), stderr);
  if (path.empty()) return;
  if (path.ends_with(".html")) {
    write_text_file(path, report::to_html(profile));
    return;
  }
  const bool trace = path.ends_with(".trace.json");
  write_text_file(path, trace ? report::to_chrome_trace(profile) : report::to_json(profile));
}

int run(FitCommand command) {
  if (!command.output.empty()) formats::check_output_name(command.output);
  if (!command.shuffle.empty()) data::parse_shuffle(command.shuffle);  // refused before anything
  const std::unique_ptr<train::Checkpointer> checkpoints = open_checkpoints(command);
  Loaded loaded = load(command.model, true, true);
  TrainingData data = open_training(command.data, command.model.seed, loaded);
  train::SessionOptions session_choices =
      session_options(command.model, command.data.data.set.spill_directory);
  session_choices.profile = command.profile || !command.profile_output.empty();
  train::Session session(loaded.file.model, loaded.compile, session_choices, data.rows,
                         data.resident);
  report::PlanSummary plan = session.summary();
  if (command.shuffle.empty()) command.shuffle = data::to_string(data.train.usual_shuffle());
  plan.data = data::describe(data.train) + ", shuffle " + command.shuffle;
  if (!command.model.json) std::fputs((report::to_text(plan, false) + "\n").c_str(), stderr);
  session.initialize(loaded.file.weights.get());
  const std::unique_ptr<train::Callbacks> callbacks = make_callbacks(command, loaded, session);
  if (checkpoints && callbacks) checkpoints->attach(*callbacks);
  train::Position start;
  if (checkpoints) {
    start = checkpoints->restore(session, data.rows.train, data::parse_shuffle(command.shuffle));
  }
  const std::unique_ptr<trace::RunLog> log = open_log(command, start);
  EpochLogs logs =
      open_epoch_logs(command.callbacks, start.epoch, report::to_text(plan, true), session);
  train::FitOptions options = fit_options(command, log.get(), logs, session);
  options.start = start;
  if (callbacks) {
    options.ends = [&](const train::EpochResult& result) {
      return callbacks->end_epoch(session, result);
    };
    if (callbacks->state().stopped) options.epochs = start.epoch;  // it ended before
  }
  if (checkpoints) {
    options.on_position = [&](const train::Position& position, bool epoch_ended) {
      checkpoints->pass(session, position, epoch_ended);
    };
  }
  train::History history;
  {
    const StopOnSignal guard(session);
    history = session.fit(data.train, data.validation.get(), options);
  }
  const bool kept = !checkpoints || checkpoints->finish(session, history.position);
  if (callbacks && !history.interrupted) callbacks->finish(session);
  const report::RunSummary summary = summarize(session, history);
  if (!command.output.empty()) {
    formats::save_model(command.output, loaded.file.model, &loaded.compile, *session.state());
  }
  report_profile(command, session);
  if (command.model.json) {
    std::fputs((report::to_json(summary) + "\n").c_str(), stdout);
  } else {
    std::fputs(report::to_text(summary).c_str(), stderr);
    if (!command.output.empty()) std::fprintf(stderr, "wrote %s\n", command.output.c_str());
  }
  if (!history.interrupted) return kDone;
  return kept ? kInterrupted : kFileFailure;
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
