// plimsoll plan: what a run would take, before anything is taken.

#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>

#include "base/file.h"
#include "cli/commands.h"
#include "cli/exit_code.h"
#include "cli/options.h"
#include "plan/text.h"
#include "report/plan_summary.h"
#include "train/planning.h"

namespace plimsoll::cli {
namespace {

struct PlanOptions {
  ModelOptions model;
  DataOptions data;
  DataOptions validation;
  bool frontier = false;
  std::string output;
};

int run(const PlanOptions& options) {
  Loaded loaded = load(options.model, true, true);
  loaded.compile.sample_weights = !options.data.sample_weights.empty();
  train::PlanRequest request;
  request.limit = memory_limit(options.model);
  request.backend = options.model.backend;
  request.threads = options.model.threads;
  request.seed = options.model.seed;
  request.plan_steps = plan_steps(options.model);
  request.spill = spill_use(options.model);
  request.spill_directory = options.data.spill_directory;
  request.spill_limit = spill_limit(options.model, options.data.spill_directory);
  train::RowCounts rows;
  rows.train = options.model.batch;
  if (!options.data.data.empty()) {
    const data::Dataset dataset = open(options.data);
    rows.train = dataset.row_count();
    request.data += dataset.resident_bytes();
  }
  if (!options.validation.data.empty()) {
    const data::Dataset dataset = open(options.validation);
    rows.evaluate = dataset.row_count();
    request.data += dataset.resident_bytes();
  }
  const layers::BatchSizes batches = train::batch_sizes(options.model.batch, rows);
  const train::PlannedRun planned =
      train::plan_run(loaded.file.model, loaded.compile, batches, request);
  const bool frontier = options.frontier || !request.limit;
  const std::string text = options.model.json ? report::to_json(planned.summary) + "\n"
                                              : report::to_text(planned.summary, frontier);
  std::fputs(text.c_str(), stdout);
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
  add_data_options(*command, options->data, DataNeed::kOptional);
  command->add_option("--validation", options->validation.data, "Samples to evaluate on");
  command->add_option("--validation-labels", options->validation.labels, "Their labels");
  command->add_flag("--frontier", options->frontier, "Limits against time, down to the smallest");
  command->add_option("--output", options->output, "File for the chosen plan as text");
  return [options] { return run(*options); };
}

}  // namespace plimsoll::cli
