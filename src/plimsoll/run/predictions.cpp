#include "run/predictions.h"

#include <algorithm>
#include <utility>
#include <variant>

#include "base/accounted.h"
#include "base/error.h"
#include "data/rows/npy_sink.h"
#include "data/text_sink.h"

namespace plimsoll::run {
namespace {

std::string path_for(const std::string& path, const layers::Model& model,
                     const layers::ModelPort& port) {
  if (model.outputs().size() == 1) return path;
  std::string name = port.name;
  std::ranges::replace(name, '/', '_');
  const size_t ending = path.rfind('.');
  return path.substr(0, ending) + "-" + name + path.substr(ending);
}

}  // namespace

struct PredictionFiles::Sink {
  std::variant<data::NpySink, data::TextSink> file;
};

void check_predictions_name(const std::string& option, const std::string& path) {
  for (const char* ending : {".npy", ".csv", ".jsonl"}) {
    if (path.ends_with(ending)) return;
  }
  throw Error(ErrorKind::kConfig,
              option + ": expected a name ending in .npy, .csv or .jsonl, received " + path);
}

void check_float_output(const layers::ModelPort& output) {
  if (output.type.dtype == DType::kFloat32) return;
  throw Error(ErrorKind::kModel, "[" + output.name + "] expected an output of float32, received " +
                                     std::string(to_string(output.type.dtype)) +
                                     ". Write predictions to a file.");
}

PredictionFiles::PredictionFiles(const std::string& path, const layers::Model& model,
                                 int64_t rows) {
  const MemoryTag tag(MemoryPart::kFiles);
  const auto form =
      path.ends_with(".csv") ? data::TextSink::Form::kCsv : data::TextSink::Form::kJsonLines;
  for (const layers::ModelPort& port : model.outputs()) {
    std::vector<int64_t> shape = port.type.shape.at(1);
    shape.erase(shape.begin());
    const std::string& name = paths_.emplace_back(path_for(path, model, port));
    if (path.ends_with(".npy")) {
      sinks_.emplace_back(new Sink{std::variant<data::NpySink, data::TextSink>(
          std::in_place_type<data::NpySink>, name, port.type.dtype, rows, shape)});
    } else {
      sinks_.emplace_back(new Sink{std::variant<data::NpySink, data::TextSink>(
          std::in_place_type<data::TextSink>, form, name, port.type.dtype, rows, shape)});
    }
  }
}

PredictionFiles::~PredictionFiles() = default;

void PredictionFiles::take(int output, int64_t row_begin, int64_t row_count, const void* rows) {
  const MemoryTag tag(MemoryPart::kFiles);
  std::visit([&](auto& file) { file.take(0, row_begin, row_count, rows); },
             sinks_[static_cast<size_t>(output)]->file);
}

void PredictionFiles::finish() {
  const MemoryTag tag(MemoryPart::kFiles);
  for (const std::unique_ptr<Sink>& sink : sinks_) {
    std::visit([](auto& file) { file.finish(); }, sink->file);
  }
}

}  // namespace plimsoll::run
