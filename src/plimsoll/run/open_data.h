#pragma once

// Data sets as a model takes them: paths given to its inputs and outputs, shapes and class numbers
// from the model.

#include <memory>
#include <string>
#include <vector>

#include "layers/model/model.h"
#include "layers/training/programs.h"
#include "run/listener.h"
#include "run/request.h"
#include "train/session.h"

namespace plimsoll::run {

struct OpenedData {
  std::shared_ptr<data::Dataset> train;
  std::shared_ptr<data::Dataset> validation;  // null: none
  planning::RowCounts rows;
  planning::DataMemory memory;  // but for reading ahead
};

// The model's inputs, and its outputs that have a loss, as data are told apart by.
void name_ports(const layers::Model& model, const layers::CompileOptions& compile,
                data::DatasetOptions& options);

// Says once where labels are no numbers from 0 to 1 beside a loss that takes them for such. Keras
// trains on them, and so does this. Many labels are not all looked at.
void note_labels(const data::Dataset& dataset, const layers::CompileOptions& compile,
                 const layers::Model& model, Listener& listener);

// Says where a table that the model was not trained on is scaled by its own mean and deviation.
void note_own_scale(const data::Dataset& dataset, const DataPaths& paths, Listener& listener);

// `labels`: whether they are wanted. Throws kConfig, kData, kIo.
std::shared_ptr<data::Dataset> open_data(const DataRequest& request, const layers::Model& model,
                                         const layers::CompileOptions& compile, bool labels,
                                         Listener& listener, const data::Dataset* like = nullptr);

// What training and its plan have in common.
struct TrainingDataRequest {
  const DataRequest& data;
  const DataRequest& validation;
  double validation_split = 0;
  const std::string& class_weights;
  uint64_t seed = 0;
};
// Tells `compile` of sample weights where there are any.
OpenedData open_training(const TrainingDataRequest& request, const layers::Model& model,
                         layers::CompileOptions& compile, Listener& listener);

// The labels' shapes of outputs whose losses read sequences of labels, the others' empty; none
// where no loss does.
std::vector<std::vector<int64_t>> sequence_shapes(const layers::CompileOptions& compile,
                                                  std::vector<std::vector<int64_t>> shapes);

// Tells the programs of the data's sample weights, and how those and labels are shaped.
void describe_data(const data::Dataset& dataset, layers::CompileOptions& compile);

}  // namespace plimsoll::run
