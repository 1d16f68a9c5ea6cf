// plimsoll plan: what a run would take, before anything is taken.

#include <malloc.h>

#include <CLI/CLI.hpp>
#include <bit>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <span>
#include <utility>

#include "base/accounted.h"
#include "base/error.h"
#include "base/file.h"
#include "base/format.h"
#include "base/places.h"
#include "cli/commands.h"
#include "cli/data_options.h"
#include "cli/exit_code.h"
#include "cli/options.h"
#include "cli/printer.h"
#include "cli/rank_output.h"
#include "cli/rates.h"
#include "cli/refusal.h"
#include "cli/typed_command.h"
#include "graph/lanes.h"
#include "plan/tree/text.h"
#include "ranks/ranks.h"
#include "report/plan_page.h"
#include "report/plan_summary.h"
#include "run/run.h"
#include "run/settings.h"

namespace plimsoll::cli {
namespace {

struct PlanCommand {
  ModelOptions model;
  TrainingDataOptions data;
  bool frontier = false;
  std::string output;
  std::string html;
  std::string why;
  int ranks = 1;
  std::string shard = kShardAuto;
  std::string network;
};

// Plans that are tried come and go by megabytes: nothing is trained here, so that what is freed may
// stay for the next one.
void keep_freed_memory() {
  constexpr int kLargest = 32 << 20;  // that the C library takes
  mallopt(M_MMAP_THRESHOLD, kLargest);
  mallopt(M_TRIM_THRESHOLD, 2 * kLargest);
}

run::FitRequest request_of(const PlanCommand& options) {
  run::FitRequest request;
  request.settings = settings_of(options.model, options.data.data.set.spill_directory);
  request.settings.shard = run::parse_shard("--shard", options.shard);
  request.settings.rank_count = options.ranks;
  if (!std::has_single_bit(static_cast<unsigned>(options.ranks))) {
    throw Error(ErrorKind::kConfig,
                fmt::format("--ranks: expected a power of two, received {}.", options.ranks));
  }
  if (options.ranks > 1 && !request.settings.plan.empty()) {
    throw Error(ErrorKind::kConfig,
                "--plan: expected none beside --ranks, received one of a single process. Leave out "
                "one of them.");
  }
  if (options.ranks > 1 && !options.output.empty()) {
    throw Error(ErrorKind::kConfig,
                "--output: expected none beside --ranks, received a file for a plan that ranks "
                "would not read. Leave out one of them.");
  }
  if (options.ranks == 1 && request.settings.shard.value_or(0) > 0) {
    throw Error(ErrorKind::kConfig,
                fmt::format("--shard: expected --ranks beside it, received stage {} for one "
                            "process, which holds everything. Say how many ranks there are.",
                            *request.settings.shard));
  }
  if (!options.network.empty()) {
    if (options.ranks == 1) {
      throw Error(ErrorKind::kConfig,
                  "--network: expected --ranks beside it, received one process, which exchanges "
                  "nothing. Say how many ranks there are.");
    }
    request.settings.network = run::parse_network("--network", options.network);
  }
  request.data = data_request(options.data);
  request.validation = validation_request(options.data);
  request.validation_split = options.data.validation_split;
  request.class_weights = options.data.class_weights;
  return request;
}

// What a file begins with; of none, or of what is no file, nothing.
std::string beginning_of(const std::string& path, size_t size) {
  std::error_code unreadable;
  if (!std::filesystem::is_regular_file(path, unreadable)) return "";
  std::string text(size, '\0');
  text.resize(File::open_read(path).read_some_at(0, std::as_writable_bytes(std::span(text))));
  return text;
}

// A plan takes the place of an older one alone.
void check_places(const PlanCommand& options) {
  for (const auto& [option, path] :
       {std::pair("--output", &options.output), std::pair("--html", &options.html)}) {
    if (path->empty()) continue;
    check_text_name(option, *path, {".json", ".csv"});
    check_place(*path);
  }
  const std::string begins = beginning_of(options.output, plan::kPlanBegins.size());
  if (begins.empty() || begins == plan::kPlanBegins) return;
  throw Error(ErrorKind::kConfig,
              fmt::format("--output: expected a new file or an older plan, received {}, which is "
                          "no plan. Name another file, or remove that one.",
                          options.output));
}

// What to do with a plan that fits.
std::string next_step(const PlanCommand& options, const CLI::App& app, const TypedCommand& typed) {
  std::vector<std::string> more;
  if (options.data.data.empty()) more = {"--data", "x.npy", "--labels", "y.npy"};
  const std::string launcher = options.ranks > 1 ? fmt::format("mpirun -n {} ", options.ranks) : "";
  return std::string("\nto train it") +
         (more.empty() ? "" : " (x.npy and y.npy stand for your files)") + ":\n  " + launcher +
         other_command(typed, app, "fit", more) + "\n";
}

int run(const PlanCommand& options, const CLI::App& app, const TypedCommand& typed) {
  // The first one answers of several processes that a launcher started.
  if (ranks::launched_rank() > 0) return kDone;
  check_places(options);
  keep_freed_memory();
  Printer printer(options.model.json);
  run::FitRequest request = request_of(options);
  const run::Run run(run::load(model_request(options.model), request.settings,
                               {.optimizer = true, .loss = true}, printer));
  ask_for_rates(request.settings);
  const planning::PlannedRun planned = run.plan(request, options.why, printer);
  const bool frontier = options.frontier || !request.settings.memory;
  std::string text = options.model.json
                         ? report::to_json(planned.summary) + "\n"
                         : report::to_text(planned.summary, frontier, spelling(typed));
  if (!options.model.json && planned.runnable) text += next_step(options, app, typed);
  std::fputs(text.c_str(), stdout);
  if (!options.html.empty()) {
    const MemoryTag tag(MemoryPart::kFiles);
    write_text_file(options.html, report::to_html(planned.summary));
  }
  if (!options.output.empty() && planned.runnable) {
    const MemoryTag tag(MemoryPart::kFiles);
    const planning::RunnablePlan& chosen = *planned.runnable;
    write_text_file(options.output, plan::print(chosen.plan, chosen.lowered.built.set));
  }
  return planned.runnable ? kDone : kDoesNotFit;
}

}  // namespace

Command add_plan(CLI::App& app, const TypedCommand& typed) {
  auto options = std::make_shared<PlanCommand>();
  CLI::App* command = app.add_subcommand("plan", "Predict memory and time of a training step");
  add_model_options(*command, options->model);
  add_training_data_options(*command, options->data, DataNeed::kOptional);
  command->add_flag("--frontier", options->frontier, "Limits against time, down to the smallest");
  command
      ->add_option("--why", options->why,
                   "A layer: what became of each of its values, what that saves and costs")
      ->type_name("LAYER");
  command
      ->add_option("--ranks", options->ranks,
                   "Ranks that share every step, a power of two: the plan is one rank's; default 1")
      ->check(CLI::Range(1, static_cast<int>(graph::kMostLanes)));
  add_shard_option(*command, options->shard);
  command
      ->add_option("--network", options->network,
                   "What joins the ranks, as 10Gbit/s,30us, or 10Gbit/s,30us,5% where they are not "
                   "equally fast: how long they exchange, and what that leaves of the speed of as "
                   "many processes")
      ->type_name("RATE,TIME[,SPREAD]");
  command->add_option("--output", options->output, "File for the chosen plan as text")
      ->type_name("FILE");
  command->add_option("--html", options->html, "Write a page there")->type_name("FILE");
  return [options, &app, &typed] {
    return or_refusal(typed, app, false, [&] { return run(*options, app, typed); });
  };
}

}  // namespace plimsoll::cli
