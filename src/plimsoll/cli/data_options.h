#pragma once

// Options of commands that read data. Each option may be given once, but for --data and --labels,
// which a model of several inputs or outputs takes a path for each: NAME=PATH, or paths alone in
// its order.

#include <string>
#include <vector>

#include "run/request.h"

namespace CLI {  // NOLINT(readability-identifier-naming): the library's
class App;
}

namespace plimsoll::cli {

// kOptional: a plan is exact for data that it is told of (the short last batch, buffers).
enum class DataNeed { kSamples, kLabelled, kOptional };
void add_data_options(CLI::App& command, run::DataPaths& options, DataNeed need);

// What `fit` and `plan` take beyond that.
struct TrainingDataOptions {
  run::DataPaths data;
  std::vector<std::string> validation;
  std::vector<std::string> validation_labels;
  double validation_split = 0;
  std::string class_weights;
};
void add_training_data_options(CLI::App& command, TrainingDataOptions& options, DataNeed need);
run::DataRequest data_request(const TrainingDataOptions& options);
// Read as the training data are; empty where there are none of their own.
run::DataRequest validation_request(const TrainingDataOptions& options);

}  // namespace plimsoll::cli
