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
#include "data/text_sink.h"
#include "train/session.h"

namespace plimsoll::cli {
namespace {

struct PredictCommand {
  ModelOptions model;
  DataOptions data;
  std::string output;
};

void check_output(const std::string& path) {
  for (const char* ending : {".npy", ".csv", ".jsonl"}) {
    if (path.ends_with(ending)) return;
  }
  throw Error(ErrorKind::kConfig,
              "--output: expected a name ending in .npy, .csv or .jsonl, received " + path);
}

// Runs the whole of the data through the model into a sink of either kind.
template <typename Sink>
void predict_into(Sink& sink, train::Session& session, const Loaded& loaded,
                  data::Dataset& dataset) {
  session.initialize(loaded.file.weights.get());
  session.predict(dataset, sink);
  sink.finish();
}

int run(const PredictCommand& command) {
  check_output(command.output);
  const Loaded loaded = load(command.model, false, false);
  data::Dataset dataset = open(command.data, loaded);
  dataset.targets.clear();
  dataset.weights.clear();
  train::RowCounts rows;
  rows.predict = dataset.row_count();
  train::Session session(
      loaded.file.model, layers::CompileOptions{},
      session_options(command.model, command.data.set.spill_directory), rows,
      {dataset.resident_bytes(), dataset.wants_ahead(command.model.batch, data::Shuffle::kNone)});
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
  if (command.output.ends_with(".npy")) {
    data::NpySink sink(command.output, type.dtype, rows.predict, std::move(row_shape));
    predict_into(sink, session, loaded, dataset);
  } else {
    const auto form = command.output.ends_with(".csv") ? data::TextSink::Form::kCsv
                                                       : data::TextSink::Form::kJsonLines;
    data::TextSink sink(form, command.output, type.dtype, rows.predict, std::move(row_shape));
    predict_into(sink, session, loaded, dataset);
  }
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
  command->add_option("--output", options->output, "Predictions: .npy, .csv or .jsonl")->required();
  return [options] { return run(*options); };
}

}  // namespace plimsoll::cli
