// plimsoll evaluate: loss and metrics of a model on data.

#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>

#include "cli/commands.h"
#include "cli/data_options.h"
#include "cli/exit_code.h"
#include "cli/options.h"
#include "cli/printer.h"
#include "cli/rank_output.h"
#include "cli/refusal.h"
#include "report/progress.h"
#include "run/run.h"

namespace plimsoll::cli {
namespace {

struct EvaluateCommand {
  ModelOptions model;
  run::DataPaths data;
  double rank_timeout = kRankTimeout;
};

int run(const EvaluateCommand& command, const CommandRanks& ranks) {
  Printer printer(command.model.json);
  run::Settings settings = settings_of(command.model, command.data.set.spill_directory);
  ranks.share(settings, false);
  run::Run run(run::load(model_request(command.model), settings, {.loss = true}, printer));
  const run::Evaluation result = run.evaluate({settings, {command.data, nullptr}}, printer);
  if (command.model.json) {
    std::fputs((report::to_json(result.summary) + "\n").c_str(), stdout);
  } else {
    for (const auto& [name, value] : result.metrics) {
      std::printf("%s %.6g\n", name.c_str(), report::without_sign_of_nan(value));
    }
    std::fputs(report::to_text(result.summary).c_str(), stderr);
  }
  return result.summary.passed_limit ? kPassedLimit : kDone;
}

}  // namespace

Command add_evaluate(CLI::App& app, const TypedCommand& typed) {
  auto options = std::make_shared<EvaluateCommand>();
  CLI::App* command = app.add_subcommand("evaluate", "Loss and metrics of a model on data");
  add_model_options(*command, options->model);
  add_data_options(*command, options->data, DataNeed::kLabelled);
  add_rank_options(*command, options->rank_timeout);
  return [options, &app, &typed] {
    return or_refusal(typed, app, false, [&] {
      CommandRanks ranks(options->rank_timeout);
      return ranks.end(run(*options, ranks));
    });
  };
}

}  // namespace plimsoll::cli
