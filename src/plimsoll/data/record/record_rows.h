#pragma once

// Samples of TFRecord files of tf.train.Example.
//
// Records differ in length, so the files are read once, in order, and the features that the model
// takes are rewritten as arrays in unlinked files: float lists as float32, integer lists as int64,
// bytes as uint8; several features side by side that are not of one kind as float32. Every record
// must have them, of the same kind and length as the first; but for images, which are whole files
// and decoded as those of a folder are, and for strings that the model looks up, which become
// numbers as they are read. No record is held.

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "data/rows/dataset_options.h"
#include "data/rows/row_source.h"

namespace plimsoll::data {

using RecordFile = std::function<std::shared_ptr<const codec::FileReader>()>;

struct RecordSources {
  std::vector<std::shared_ptr<RowSource>> features;
  std::vector<std::shared_ptr<RowSource>> labels;  // empty where there are none
  std::vector<bool> were_strings;                  // of the features: they are looked up by now
  std::vector<std::string> notes;
  Bytes opening_peak{};  // the most that rewriting held
  Bytes tables{};        // vocabularies, which no source counts
};

// The features are those called as the model's inputs, else those of options.columns, else the one
// called x, features, inputs, image, data or image/encoded, else all that are numbers, by name, or
// all strings where the model looks strings up; the labels are those called as its outputs, else
// options.label_column, else y, label, labels, target, class or image/class/label. Throws kData
// naming record and feature, kConfig for a name that is not there. `files` are opened one after
// another.
RecordSources open_records(const std::vector<RecordFile>& files, const DatasetOptions& options);

}  // namespace plimsoll::data
