#pragma once

// Options that say which data and how they become samples, and the opening of them.
//
// What a sample looks like is asked of the model, so data are opened behind it. A model of several
// inputs or outputs takes a path for each: NAME=PATH, or paths alone in its order.

#include <memory>
#include <string>
#include <vector>

#include "cli/options.h"
#include "data/dataset.h"

namespace plimsoll::cli {

struct DataOptions {
  data::DatasetOptions set;         // but for what the model says
  std::vector<std::string> data;    // a path, or one for each input
  std::vector<std::string> labels;  // a path, or one for each output
  std::string cache_limit;          // as it was written
  std::vector<std::string> like;    // data whose categories and classes hold for these
};

// kOptional: a plan is exact for data that it is told of (the short last batch, buffers).
enum class DataNeed { kSamples, kLabelled, kOptional };
void add_data_options(CLI::App& command, DataOptions& options, DataNeed need);

data::Dataset open(const DataOptions& options, const Loaded& loaded);
// The model's inputs, and its outputs that have a loss, as data are told apart by.
void name_ports(const layers::Model& model, const layers::CompileOptions& compile,
                data::DatasetOptions& options);

// Tells the programs of the data's sample weights and their shapes.
void weigh_samples(const data::Dataset& dataset, layers::CompileOptions& compile);

// What `fit` and `plan` take beyond that.
struct TrainingDataOptions {
  DataOptions data;
  std::vector<std::string> validation;
  std::vector<std::string> validation_labels;
  double validation_split = 0;
  std::string class_weights;
};
void add_training_data_options(CLI::App& command, TrainingDataOptions& options, DataNeed need);

struct TrainingData {
  data::Dataset train;
  std::unique_ptr<data::Dataset> validation;  // null: none
  planning::RowCounts rows;
  Bytes resident;
  planning::DataOpening opening;
};
// Sets loaded.compile.sample_weights where there are any. Throws kConfig, kData, kIo.
TrainingData open_training(const TrainingDataOptions& options, uint64_t seed, Loaded& loaded);

}  // namespace plimsoll::cli
