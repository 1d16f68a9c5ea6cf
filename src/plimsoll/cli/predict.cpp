// plimsoll predict: a model's outputs on data, written as they come.

#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>
#include <optional>

#include "base/places.h"
#include "cli/commands.h"
#include "cli/data_options.h"
#include "cli/exit_code.h"
#include "cli/options.h"
#include "cli/printer.h"
#include "cli/refusal.h"
#include "ranks/ranks.h"
#include "report/run_summary.h"
#include "run/predictions.h"
#include "run/run.h"

namespace plimsoll::cli {
namespace {

struct PredictCommand {
  ModelOptions model;
  run::DataPaths data;
  std::string output;
};

int run(const PredictCommand& command) {
  // One process predicts; of several that a launcher started, the first one.
  if (ranks::launched_rank() > 0) return kDone;
  run::check_predictions_name("--output", command.output);
  check_not_read("--output", command.output, command.data.data);
  Printer printer(command.model.json);
  const run::Settings settings = settings_of(command.model, command.data.set.spill_directory);
  run::Run run(run::load(model_request(command.model), settings, {}, printer));
  std::optional<run::PredictionFiles> files;
  int64_t predicted = 0;
  const auto open = [&](int64_t rows) -> OutputSink& {
    predicted = rows;
    return files.emplace(command.output, run.model(), rows);
  };
  const train::MemoryReport memory =
      run.predict({settings, {command.data, nullptr}}, open, Bytes(), printer);
  files->finish();
  for (const std::string& path : files->paths()) {
    std::fprintf(stderr, "wrote %lld predictions to %s\n", static_cast<long long>(predicted),
                 path.c_str());
  }
  if (!command.model.json) {
    const std::string peak =
        report::peak_words(memory.measured_process, memory.predicted_process, memory.limit);
    std::fprintf(stderr, "%s\n", peak.c_str());
  }
  return memory.passed_limit ? kPassedLimit : kDone;
}

}  // namespace

Command add_predict(CLI::App& app, const TypedCommand& typed) {
  auto options = std::make_shared<PredictCommand>();
  CLI::App* command = app.add_subcommand("predict", "Write a model's outputs on data");
  add_model_options(*command, options->model);
  add_data_options(*command, options->data, DataNeed::kSamples);
  command->add_option("--output", options->output, "Predictions: .npy, .csv or .jsonl")
      ->type_name("FILE")
      ->required();
  return [options, &app, &typed] {
    return or_refusal(typed, app, false, [&] { return run(*options); });
  };
}

}  // namespace plimsoll::cli
