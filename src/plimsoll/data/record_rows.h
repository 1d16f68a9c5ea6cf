#pragma once

// Samples of a TFRecord file of tf.train.Example.
//
// Records differ in length, so the file is read once, in order, and the features that the model
// takes are rewritten as arrays in unlinked files: float lists as float32, integer lists as int64,
// bytes as uint8. Every record must have them, of the same kind and length as the first.

#include <memory>
#include <vector>

#include "data/dataset_options.h"
#include "data/row_source.h"

namespace plimsoll::data {

struct RecordSources {
  std::vector<std::shared_ptr<RowSource>> features;
  std::vector<std::shared_ptr<RowSource>> labels;  // empty where there are none
};

// The features are those called as the model's inputs, else options.columns, else the one called x,
// features, inputs, image or data; the labels are those called as its outputs, else
// options.label_column, else y, label, labels, target or class. Throws kData naming record and
// feature, kConfig for a name that is not there.
RecordSources open_records(const std::shared_ptr<const codec::FileReader>& file,
                           const DatasetOptions& options);

}  // namespace plimsoll::data
