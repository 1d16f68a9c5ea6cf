// plimsoll plan: what a run would take, before anything is taken.

#include <malloc.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>

#include "base/file.h"
#include "cli/commands.h"
#include "cli/data_options.h"
#include "cli/exit_code.h"
#include "cli/options.h"
#include "data/dataset_stages.h"
#include "plan/tree/text.h"
#include "planning/planning.h"
#include "report/plan_page.h"
#include "report/plan_summary.h"
#include "report/waiting.h"

namespace plimsoll::cli {
namespace {

struct PlanOptions {
  ModelOptions model;
  TrainingDataOptions data;
  bool frontier = false;
  std::string output;
  std::string html;
  std::string why;
};

// Plans that are tried come and go by megabytes: nothing is trained here, so that what is freed may
// stay for the next one.
void keep_freed_memory() {
  constexpr int kLargest = 32 << 20;  // that the C library takes
  mallopt(M_MMAP_THRESHOLD, kLargest);
  mallopt(M_TRIM_THRESHOLD, 2 * kLargest);
}

int run(const PlanOptions& options) {
  keep_freed_memory();
  Loaded loaded = load(options.model, true, true);
  planning::PlanRequest request;
  request.limit = memory_limit(options.model);
  request.backend = options.model.backend;
  request.threads = options.model.threads;
  request.seed = options.model.seed;
  request.plan_steps = plan_steps(options.model);
  request.extends = !options.model.plan_time;
  request.max_slowdown = max_slowdown(options.model);
  request.without = options.model.without;
  request.why = options.why;
  request.times = planning::named_times(options.model.times, options.model.tune);
  request.saved_plan = saved_plan(options.model);
  request.spill = spill_use(options.model);
  request.spill_directory = options.data.data.set.spill_directory;
  request.spill_limit = spill_limit(options.model, options.data.data.set.spill_directory);
  planning::RowCounts rows;
  rows.train = options.model.batch;
  std::string description;
  if (!options.data.data.data.empty()) {
    const TrainingData data = open_training(options.data, options.model.seed, loaded);
    rows = data.rows;
    request.data = data.resident;
    request.data_opening = data.opening;
    request.data_ahead = data.train.wants_ahead(options.model.batch, data.train.usual_shuffle());
    description = data::describe(data.train);
  }
  const layers::BatchSizes batches = planning::batch_sizes(options.model.batch, rows);
  std::optional<report::Waiting> waiting(std::in_place, planning_text(request.limit),
                                         options.model.json);
  request.tell = [&](const std::string& what) { waiting->go_on(what); };
  planning::PlannedRun planned =
      planning::plan_run(loaded.file.model, loaded.compile, batches, request);
  waiting.reset();
  planned.summary.data = description;
  const bool frontier = options.frontier || !request.limit;
  const std::string text = options.model.json ? report::to_json(planned.summary) + "\n"
                                              : report::to_text(planned.summary, frontier);
  std::fputs(text.c_str(), stdout);
  if (!options.html.empty()) write_text_file(options.html, report::to_html(planned.summary));
  if (!options.output.empty() && planned.plan) {
    write_text_file(options.output, plan::print(*planned.plan, planned.lowered.built.set));
  }
  return planned.plan ? kDone : kDoesNotFit;
}

}  // namespace

Command add_plan(CLI::App& app) {
  auto options = std::make_shared<PlanOptions>();
  CLI::App* command = app.add_subcommand("plan", "Predict memory and time of a training step");
  add_model_options(*command, options->model);
  add_training_data_options(*command, options->data, DataNeed::kOptional);
  command->add_flag("--frontier", options->frontier, "Limits against time, down to the smallest");
  command->add_option("--why", options->why,
                      "A layer: what became of each of its values, what that saves and costs");
  command->add_option("--output", options->output, "File for the chosen plan as text");
  command->add_option("--html", options->html, "Write a page there");
  return [options] { return run(*options); };
}

}  // namespace plimsoll::cli
