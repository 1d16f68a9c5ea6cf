#pragma once

// Predictions in files, written as they come.

#include <memory>
#include <string>
#include <vector>

#include "base/tensor_io.h"
#include "layers/model/model.h"

namespace plimsoll::run {

// Throws kConfig where the name does not end in .npy, .csv or .jsonl.
void check_predictions_name(const std::string& option, const std::string& path);

// Outputs that are kept in memory are float32: throws kModel naming one that is not.
void check_float_output(const layers::ModelPort& output);

// A file for each output of a model: the path itself, or for several outputs p.npy's neighbours
// p-left.npy and p-right.npy. They appear whole or not at all.
class PredictionFiles final : public OutputSink {
 public:
  // Throws kIo.
  PredictionFiles(const std::string& path, const layers::Model& model, int64_t rows);
  ~PredictionFiles() override;

  void take(int output, int64_t row_begin, int64_t row_count, const void* rows) override;
  void finish();
  const std::vector<std::string>& paths() const { return paths_; }

 private:
  struct Sink;
  std::vector<std::string> paths_;
  std::vector<std::unique_ptr<Sink>> sinks_;
};

}  // namespace plimsoll::run
