#pragma once

// Samples of a TFRecord file of tf.train.Example.
//
// Records differ in length, so the file is read once, in order, and its two features are rewritten
// as arrays in unlinked files: float lists as float32, integer lists as int64, bytes as uint8.
// Every record must have both, of the same kind and length as the first.

#include <memory>
#include <string>

#include "data/dataset_options.h"
#include "data/row_source.h"

namespace plimsoll::data {

struct RecordSources {
  std::unique_ptr<RowSource> features;
  std::unique_ptr<RowSource> labels;  // null where there is none
};

// The features are options.columns, else the one called x, features, inputs, image or data; the
// labels are options.label_column, else y, label, labels, target or class. Throws kData naming
// record and feature, kConfig for a name that is not there.
RecordSources open_records(const std::shared_ptr<const codec::FileReader>& file,
                           const DatasetOptions& options);

}  // namespace plimsoll::data
