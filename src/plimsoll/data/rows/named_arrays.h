#pragma once

// Which arrays of one file (an archive, HDF5, records) are features, targets and sample weights.
//
// A model of several inputs or outputs finds its arrays by the names that these have in it; one of
// a single input also by the names that people usually give.

#include <functional>
#include <string>
#include <vector>

#include "data/rows/dataset_options.h"

namespace plimsoll::data {

struct ArrayNames {
  std::vector<std::string> features;  // in the order of the model's inputs; empty: not found
  std::vector<std::string> targets;
  std::string weights;
  friend bool operator==(const ArrayNames&, const ArrayNames&) = default;
};

// Whether the file has an array of that name.
using HoldsArray = std::function<bool(const std::string&)>;

// Arrays that are called as the model's inputs, all of them or none, and likewise its outputs.
// Throws kData where arrays of some of several outputs are there and others are not.
ArrayNames find_named(const DatasetOptions& options, const std::string& origin,
                      const HoldsArray& holds);

// Fills in x and y, x_train and y_train …, where the model has no more than one input or output and
// nothing was found by name.
void add_usual_names(const DatasetOptions& options, const HoldsArray& holds, ArrayNames& names);

// "arrays x and y (or x_train and y_train)", or what several inputs are called, for messages.
std::string expected_arrays(const DatasetOptions& options);

// Elements of a sample's labels: one for each place that has an output for every class, where they
// are class numbers.
int64_t label_elements(const Port& output);

// Whether labels are in files of their own.
bool has_own_labels(const DatasetOptions& options);

// The first names of a file's arrays, for messages: "a, b, c and 200 others".
std::string list_names(const std::vector<std::string>& names);

// "left, right"; empty without any.
std::string names_of(const std::vector<Port>& ports);

}  // namespace plimsoll::data
