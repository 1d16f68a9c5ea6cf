// plimsoll predict: a model's outputs on data, written as they come.

#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>

#include "base/error.h"
#include "cli/commands.h"
#include "cli/data_options.h"
#include "cli/exit_code.h"
#include "cli/options.h"
#include "data/npy_sink.h"
#include "train/session.h"

namespace plimsoll::cli {
namespace {

struct PredictCommand {
  ModelOptions model;
  DataOptions data;
  std::string output;
};

void check_output(const std::string& path) {
  if (path.ends_with(".npy")) return;
  throw Error(ErrorKind::kConfig, "--output: expected a name ending in .npy, received " + path);
}

int run(const PredictCommand& command) {
  check_output(command.output);
  const Loaded loaded = load(command.model, false, false);
  data::Dataset dataset = open(command.data, loaded);
  dataset.targets.clear();
  dataset.weights.clear();
  train::RowCounts rows;
  rows.predict = dataset.row_count();
  train::Session session(loaded.file.model, layers::CompileOptions{},
                         session_options(command.model, command.data.set.spill_directory), rows,
                         dataset.resident_bytes());
  const graph::Graph& graph =
      graph::find_program(session.programs().set,
                          rows.predict < command.model.batch ? "predict_tail" : "predict")
          ->graph;
  const graph::ValueType& type = graph.value(graph.outputs.front()).type;
  if (graph.outputs.size() != 1) {
    throw Error(ErrorKind::kModel, "expected a model of one output, received one of " +
                                       std::to_string(graph.outputs.size()) +
                                       ". Predict each output from a model of its own.");
  }
  std::vector<int64_t> row_shape = type.shape.at(1);
  row_shape.erase(row_shape.begin());
  data::NpySink sink(command.output, type.dtype, rows.predict, std::move(row_shape));
  session.initialize(loaded.file.weights.get());
  session.predict(dataset, sink);
  sink.finish();
  std::fprintf(stderr, "wrote %lld predictions to %s\n", static_cast<long long>(rows.predict),
               command.output.c_str());
  return kDone;
}

}  // namespace

Command add_predict(CLI::App& app) {
  auto options = std::make_shared<PredictCommand>();
  CLI::App* command = app.add_subcommand("predict", "Write a model's outputs on data");
  add_model_options(*command, options->model);
  add_data_options(*command, options->data, DataNeed::kSamples);
  command->add_option("--output", options->output, "Predictions: a .npy file")->required();
  return [options] { return run(*options); };
}

}  // namespace plimsoll::cli
