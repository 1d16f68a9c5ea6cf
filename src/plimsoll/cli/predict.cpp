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
#include "cli/rank_output.h"
#include "cli/refusal.h"
#include "report/run_summary.h"
#include "run/predictions.h"
#include "run/run.h"

namespace plimsoll::cli {
namespace {

struct PredictCommand {
  ModelOptions model;
  run::DataPaths data;
  std::string output;
  double rank_timeout = kRankTimeout;
};

// What ranks after the first have of predictions goes to the first.
class Nowhere final : public OutputSink {
 public:
  void take(int, int64_t, int64_t, const void*) override {}
};

int run(const PredictCommand& command, const CommandRanks& ranks) {
  run::check_predictions_name("--output", command.output);
  check_not_read("--output", command.output, command.data.data);
  Printer printer(command.model.json);
  run::Settings settings = settings_of(command.model, command.data.set.spill_directory);
  ranks.take_turns(settings);
  run::Run run(run::load(model_request(command.model), settings, {}, printer));
  std::optional<run::PredictionFiles> files;
  Nowhere nowhere;
  int64_t predicted = 0;
  const auto open = [&](int64_t rows) -> OutputSink& {
    if (!ranks.leads()) return nowhere;
    predicted = rows;
    return files.emplace(command.output, run.model(), rows);
  };
  const train::MemoryReport memory =
      run.predict({settings, {command.data, nullptr}}, open, Bytes(), printer);
  if (files) {
    files->finish();
    for (const std::string& path : files->paths()) {
      std::fprintf(stderr, "wrote %lld predictions to %s\n", static_cast<long long>(predicted),
                   path.c_str());
    }
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
  add_rank_options(*command, options->rank_timeout);
  return [options, &app, &typed] {
    return or_refusal(typed, app, false, [&] {
      CommandRanks ranks(options->rank_timeout);
      return ranks.end(run(*options, ranks));
    });
  };
}

}  // namespace plimsoll::cli
