// plimsoll predict: a model's outputs on data, written as they come.

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <memory>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/accounted.h"
#include "base/error.h"
#include "cli/commands.h"
#include "cli/data_options.h"
#include "cli/exit_code.h"
#include "cli/options.h"
#include "data/rows/npy_sink.h"
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

// A sink for each output of the model, which are written to files of their own.
template <typename Sink>
class SinkOfEach : public OutputSink {
 public:
  void add(std::unique_ptr<Sink> sink) { sinks_.push_back(std::move(sink)); }
  void take(int output, int64_t row_begin, int64_t row_count, const void* rows) override {
    sinks_[static_cast<size_t>(output)]->take(0, row_begin, row_count, rows);
  }
  void finish() {
    for (const std::unique_ptr<Sink>& sink : sinks_) sink->finish();
  }

 private:
  std::vector<std::unique_ptr<Sink>> sinks_;
};

struct OutputFile {
  std::string path;
  DType dtype;
  std::vector<int64_t> row_shape;
};

// The path itself, or for several outputs p.npy's neighbours p-left.npy and p-right.npy.
std::vector<OutputFile> output_files(const std::string& path, const layers::Model& model) {
  const size_t ending = path.rfind('.');
  std::vector<OutputFile> files;
  for (const layers::ModelPort& port : model.outputs()) {
    std::string name = port.name;
    std::ranges::replace(name, '/', '_');
    std::vector<int64_t> shape = port.type.shape.at(1);
    shape.erase(shape.begin());
    const bool one = model.outputs().size() == 1;
    files.push_back({one ? path : path.substr(0, ending) + "-" + name + path.substr(ending),
                     port.type.dtype, std::move(shape)});
  }
  return files;
}

// Runs the whole of the data through the model into sinks that `make` makes.
template <typename Make>
void predict_into(const std::vector<OutputFile>& files, const Make& make, train::Session& session,
                  const Loaded& loaded, data::Dataset& dataset) {
  const AccountedScope scope(MemoryPart::kFiles);
  SinkOfEach<typename std::invoke_result_t<Make, const OutputFile&>::element_type> sinks;
  for (const OutputFile& file : files) sinks.add(make(file));
  session.initialize(loaded.file.weights.get());
  session.predict(dataset, sinks);
  sinks.finish();
}

int run(const PredictCommand& command) {
  check_output(command.output);
  const Loaded loaded = load(command.model, false, false);
  DataOptions options = command.data;
  options.set.labels_wanted = false;
  data::Dataset dataset = open(options, loaded);
  dataset.targets.clear();
  dataset.weights.clear();
  planning::RowCounts rows;
  rows.predict = dataset.row_count();
  layers::CompileOptions compile;
  compile.precision = loaded.compile.precision;
  train::Session session(
      loaded.file.model, compile, session_options(command.model, command.data.set.spill_directory),
      rows,
      {dataset.resident_bytes(), dataset.wants_ahead(command.model.batch, data::Shuffle::kNone),
       train::opening_of(dataset)});
  const std::vector<OutputFile> files = output_files(command.output, loaded.file.model);
  if (command.output.ends_with(".npy")) {
    const auto make = [&](const OutputFile& file) {
      return std::make_unique<data::NpySink>(file.path, file.dtype, rows.predict, file.row_shape);
    };
    predict_into(files, make, session, loaded, dataset);
  } else {
    const auto form = command.output.ends_with(".csv") ? data::TextSink::Form::kCsv
                                                       : data::TextSink::Form::kJsonLines;
    const auto make = [&](const OutputFile& file) {
      return std::make_unique<data::TextSink>(form, file.path, file.dtype, rows.predict,
                                              file.row_shape);
    };
    predict_into(files, make, session, loaded, dataset);
  }
  for (const OutputFile& file : files) {
    std::fprintf(stderr, "wrote %lld predictions to %s\n", static_cast<long long>(rows.predict),
                 file.path.c_str());
  }
  return session.memory().passed_limit ? kPassedLimit : kDone;
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
