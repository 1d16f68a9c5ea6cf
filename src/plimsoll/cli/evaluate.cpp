// plimsoll evaluate: loss and metrics of a model on data.

#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>

#include "cli/commands.h"
#include "cli/data_options.h"
#include "cli/exit_code.h"
#include "cli/options.h"
#include "report/run_summary.h"
#include "train/session.h"

namespace plimsoll::cli {
namespace {

struct EvaluateCommand {
  ModelOptions model;
  DataOptions data;
};

int run(const EvaluateCommand& command) {
  Loaded loaded = load(command.model, false, true);
  loaded.compile.optimizer = layers::Config();
  data::Dataset dataset = open(command.data, loaded);
  weigh_samples(dataset, loaded.compile);
  planning::RowCounts rows;
  rows.evaluate = dataset.row_count();
  train::Session session(
      loaded.file.model, loaded.compile,
      session_options(command.model, command.data.set.spill_directory), rows,
      {dataset.resident_bytes(), dataset.wants_ahead(command.model.batch, data::Shuffle::kNone),
       train::opening_of(dataset)});
  session.initialize(loaded.file.weights.get());
  report::RunSummary summary;
  summary.metrics = session.evaluate(dataset);
  fill_memory(session, summary);
  const int code = summary.passed_limit ? kPassedLimit : kDone;
  summary.left_out_metrics = loaded.left_out_metrics;
  if (!command.model.json) {
    for (const auto& [name, value] : summary.metrics) {
      std::printf("%s %.6g\n", name.c_str(), value);
    }
    return code;
  }
  summary.steps = (rows.evaluate + command.model.batch - 1) / command.model.batch;
  std::fputs((report::to_json(summary) + "\n").c_str(), stdout);
  return code;
}

}  // namespace

Command add_evaluate(CLI::App& app) {
  auto options = std::make_shared<EvaluateCommand>();
  CLI::App* command = app.add_subcommand("evaluate", "Loss and metrics of a model on data");
  add_model_options(*command, options->model);
  add_data_options(*command, options->data, DataNeed::kLabelled);
  return [options] { return run(*options); };
}

}  // namespace plimsoll::cli
