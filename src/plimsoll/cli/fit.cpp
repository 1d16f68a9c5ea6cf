// plimsoll fit: plan, train within the limit, write the result.

#include <CLI/CLI.hpp>
#include <algorithm>
#include <atomic>
#include <csignal>
#include <cstdio>
#include <memory>
#include <utility>

#include "base/accounted.h"
#include "base/format.h"
#include "base/places.h"
#include "bench/machine.h"
#include "cli/commands.h"
#include "cli/data_options.h"
#include "cli/exit_code.h"
#include "cli/fit_options.h"
#include "cli/options.h"
#include "cli/printer.h"
#include "cli/profile_file.h"
#include "cli/rank_output.h"
#include "cli/rates.h"
#include "cli/refusal.h"
#include "run/fitting.h"
#include "run/run.h"
#include "run/settings.h"
#include "train/checkpointer.h"

namespace plimsoll::cli {
namespace {

struct FitCommand {
  ModelOptions model;
  TrainingDataOptions data;
  run::FitRequest fit;
  bool profile = false;
  std::string profile_output;
  double rank_timeout = kRankTimeout;
  std::string shard = kShardAuto;
};

std::atomic<run::Run*> running = nullptr;

extern "C" void stop_running(int) {
  if (run::Run* const run = running) run->request_stop();
}

// From the first step on, Ctrl-C and SIGTERM end the run after the current step.
class StoppablePrinter final : public Printer {
 public:
  StoppablePrinter(run::Run& run, bool quiet) : Printer(quiet), run_(run) {}
  ~StoppablePrinter() override { disarm(); }
  StoppablePrinter(const StoppablePrinter&) = delete;
  StoppablePrinter& operator=(const StoppablePrinter&) = delete;

  void begin(const report::PlanSummary& plan) override {
    Printer::begin(plan);
    running = &run_;
    std::signal(SIGINT, stop_running);
    std::signal(SIGTERM, stop_running);
  }
  // A second Ctrl-C ends the program, whatever it writes.
  void trained() override { disarm(); }

 private:
  static void disarm() {
    if (running == nullptr) return;
    std::signal(SIGINT, SIG_DFL);
    std::signal(SIGTERM, SIG_DFL);
    running = nullptr;
  }

  run::Run& run_;
};

run::FitRequest fit_request(const FitCommand& command) {
  run::FitRequest request = command.fit;
  request.settings = settings_of(command.model, command.data.data.set.spill_directory);
  request.settings.shard = run::parse_shard("--shard", command.shard);
  request.settings.profile = command.profile || !command.profile_output.empty();
  request.data = data_request(command.data);
  request.validation = validation_request(command.data);
  request.validation_split = command.data.validation_split;
  request.class_weights = command.data.class_weights;
  request.follow_limits = true;
  request.take_signal = true;
  return request;
}

// The table, and the file where one is named. The run is over: its memory is free for finding out
// what this machine could do.
void report_profile(const FitCommand& command, const run::FitRequest& request, run::Run& run,
                    report::Profile profile) {
  if (!request.settings.profile) return;
  const MemoryTag tag(MemoryPart::kFiles);
  run.close();
  profile.machine = bench::measure_machine(command.model.settings.threads,
                                           bench::room_within(request.settings.memory));
  if (command.profile) std::fputs(("\n" + report::to_text(profile) + "\n").c_str(), stderr);
  if (!command.profile_output.empty()) write_profile(command.profile_output, profile);
}

int exit_code(const run::FitResult& result) {
  if (result.history.interrupted) return result.checkpoint_kept ? kInterrupted : kFileFailure;
  if (!result.logs_whole) return kFileFailure;
  return result.summary.passed_limit ? kPassedLimit : kDone;
}

// Where a run was stopped, and how it goes on.
void tell_interrupted(const FitCommand& command, const run::FitResult& result,
                      const TypedCommand& typed) {
  const std::string& folder = command.fit.checkpoint.folder;
  std::fprintf(stderr, "interrupted after step %lld", static_cast<long long>(result.history.steps));
  if (folder.empty()) {
    const bool kept = !command.fit.output.empty();
    std::fprintf(stderr, "; %s. With checkpoints it can go on where it was stopped:\n  %s\n",
                 kept ? "the model as it was then is in --output" : "nothing of it was kept",
                 changed_line(typed, {"--checkpoint", "run"}).c_str());
  } else if (result.checkpoint_kept) {
    std::fprintf(stderr, "; progress is saved in the folder %s. To continue:\n  %s\n",
                 folder.c_str(), changed_line(typed, {.option = "--resume"}).c_str());
  } else {
    std::fprintf(stderr, "; no checkpoint of that step could be written to %s.\n", folder.c_str());
  }
}

// "epoch 2 of 2 is done (step 38)".
std::string progress_of(const train::Position& at, int64_t epochs) {
  const bool between = at.batches == 0;
  return fmt::format("epoch {} of {} is {} (step {})", between ? at.epoch : at.epoch + 1,
                     std::max(epochs, at.epoch), between ? "done" : "not done yet", at.steps);
}

// The command that goes on with a run: with a larger total where it has reached the one that was
// asked for, and without the early stopping that ended it.
std::string going_on(const FitCommand& command, const train::Position& at, bool ended_early,
                     TypedCommand typed) {
  const run::FitRequest& fit = command.fit;
  if (ended_early) {
    typed = changed(typed, {.option = "--early-stopping", .value = "RULE", .left_out = true});
  }
  if (at.epoch >= fit.epochs) {
    typed = changed(typed, {"--epochs", std::to_string(at.epoch + fit.epochs)});
  }
  if (fit.steps && at.steps >= *fit.steps) {
    typed = changed(typed, {"--steps", std::to_string(at.steps + *fit.steps)});
  }
  return changed_line(typed, {.option = "--resume"});
}

std::string why_at_its_end(const FitCommand& command, const train::Position& at, bool ended_early) {
  if (ended_early) return ", where early stopping ended it";
  if (at.epoch >= command.fit.epochs) return ", and --epochs is the total";
  return command.fit.steps && at.steps >= *command.fit.steps ? ", and --steps is the total" : "";
}

int tell_run_exists(const FitCommand& command, const train::RunExists& found,
                    const TypedCommand& typed) {
  const train::Position& at = found.position();
  std::fprintf(stderr,
               "plimsoll: %s holds a run already: %s%s. To go on with it:\n  %s\nTo begin another "
               "one, name another folder: --checkpoint FOLDER\n",
               command.fit.checkpoint.folder.c_str(), progress_of(at, command.fit.epochs).c_str(),
               why_at_its_end(command, at, found.ended_early()).c_str(),
               going_on(command, at, found.ended_early(), typed).c_str());
  return kUsage;
}

void tell_nothing_left(const FitCommand& command, const run::FitResult& result,
                       const TypedCommand& typed) {
  const train::Position& at = result.history.position;
  std::fprintf(stderr, "nothing was left to train: %s%s. To train further:\n  %s\n",
               progress_of(at, command.fit.epochs).c_str(),
               why_at_its_end(command, at, result.ended_early).c_str(),
               going_on(command, at, result.ended_early, typed).c_str());
}

void tell_end(const FitCommand& command, const run::FitResult& result, const TypedCommand& typed) {
  const bool nothing_left = !result.history.interrupted && command.fit.checkpoint.resume &&
                            result.summary.seconds_per_step == 0;
  if (nothing_left) {
    tell_nothing_left(command, result, typed);
  } else {
    std::fputs(report::to_text(result.summary).c_str(), stderr);
  }
  if (!command.fit.output.empty()) std::fprintf(stderr, "wrote %s\n", command.fit.output.c_str());
  if (result.history.interrupted) tell_interrupted(command, result, typed);
}

// A model does not know that its columns were scaled: who evaluates it has to scale by the same.
void tell_scale(const FitCommand& command, const CLI::App& app, const TypedCommand& typed) {
  const std::vector<std::string>& data = command.data.data.data;
  const std::string& output = command.fit.output;
  if (!command.data.data.set.standardize || output.empty() || data.size() != 1) return;
  if (output.ends_with(".json")) return;  // the model without its weights
  TypedCommand evaluate = other_typed(typed, app, "evaluate");
  if (output.ends_with(".weights.h5")) {
    evaluate = changed(evaluate, {.option = "--weights", .value = output});
  } else {
    std::ranges::replace(evaluate.words, command.model.model.path, output);
    evaluate = changed(evaluate, {.option = "--weights", .value = "FILE", .left_out = true});
  }
  evaluate = changed(evaluate, {.option = "--data", .value = "TEST.csv"});
  const std::vector<std::string>& like = command.data.data.like;
  if (like.empty()) evaluate = changed(evaluate, {.option = "--like", .value = data.front()});
  std::fprintf(stderr,
               "the model was trained on standardized columns, and its file does not hold their "
               "scale. To evaluate it on others, or in the same way to predict:\n  %s\n",
               command_line(evaluate).c_str());
}

int run(const FitCommand& command, const CLI::App& app, const TypedCommand& typed,
        const CommandRanks& ranks) {
  const bool quiet = command.model.json;
  run::FitRequest request = fit_request(command);
  ranks.share(request.settings, request.checkpoint.resume);
  if (!ranks.leads()) request.settings.profile = false;
  run::check(request);
  check_text_name("--profile-output", command.profile_output);
  const std::string model[] = {command.model.model.path, command.model.model.weights};
  check_not_read("--log", request.logs.lines, model);
  check_not_read("--csv-log", request.logs.csv, model);
  Printer loading(quiet);
  run::Run run(run::load(model_request(command.model), request.settings,
                         {.optimizer = true, .loss = true}, loading));
  ask_for_rates(request.settings);
  StoppablePrinter printer(run, quiet);
  run::FitResult result = run.fit(request, printer);
  if (quiet) {
    std::fputs((report::to_json(result.summary) + "\n").c_str(), stdout);
  } else {
    tell_end(command, result, typed);
    if (ranks.leads()) tell_scale(command, app, typed);
  }
  report_profile(command, request, run, std::move(result.profile));
  return exit_code(result);
}

}  // namespace

Command add_fit(CLI::App& app, const TypedCommand& typed) {
  auto options = std::make_shared<FitCommand>();
  CLI::App* command = app.add_subcommand("fit", "Train a model within a memory limit");
  add_model_options(*command, options->model);
  add_training_data_options(*command, options->data, DataNeed::kLabelled);
  command->add_option("--epochs", options->fit.epochs, "Passes over the data")
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 40));
  command->add_option("--steps", options->fit.steps, "Stop after so many steps")
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 50));
  command
      ->add_option("--shuffle", options->fit.shuffle,
                   "full, block (local reads) or none; default: block beyond 1 GiB, else full")
      ->type_name("HOW");
  command->add_flag_callback(
      "--no-shuffle", [options] { options->fit.shuffle = "none"; },
      "Take samples in the file's order");
  command
      ->add_option("--output", options->fit.output, "Trained model: .keras, or .json for structure")
      ->type_name("FILE");
  command->add_option("--log", options->fit.logs.lines, "JSON lines: one object per epoch")
      ->type_name("FILE");
  command->add_flag("--log-steps", options->fit.logs.steps, "… and one per step");
  add_callback_options(*command, options->fit.callbacks, options->fit.logs);
  command
      ->add_option("--checkpoint", options->fit.checkpoint.folder,
                   "Folder for checkpoints of the run")
      ->type_name("FOLDER");
  command
      ->add_option("--checkpoint-every", options->fit.checkpoint.every,
                   "epoch, 500steps, 10min …; default: every epoch and every 10 minutes")
      ->type_name("WHEN");
  command->add_option("--checkpoint-keep", options->fit.checkpoint.keep, "Checkpoints that stay")
      ->check(CLI::Range(1, 1000));
  command->add_flag("--resume", options->fit.checkpoint.resume, "Go on from the newest checkpoint");
  add_rank_options(*command, options->rank_timeout);
  add_shard_option(*command, options->shard);
  command->add_flag("--profile", options->profile, "Print where the time of a step goes");
  command
      ->add_option(
          "--profile-output", options->profile_output,
          "File for that as JSON; .html: a page; .trace.json: for viewers of Chrome's traces")
      ->type_name("FILE");
  return [options, &app, &typed] {
    return or_refusal(typed, app, true, [&] {
      try {
        CommandRanks ranks(options->rank_timeout);
        return ranks.end(run(*options, app, typed, ranks));
      } catch (const train::RunExists& found) {
        return tell_run_exists(*options, found, typed);
      }
    });
  };
}

}  // namespace plimsoll::cli
