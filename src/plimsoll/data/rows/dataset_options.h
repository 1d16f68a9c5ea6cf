#pragma once

// What a user says of data beyond their names: how a table's columns are read, how images, text and
// series become samples of the model's shape.
//
// Everything has a default that suits the common case; what a kind of data does not have is
// ignored.

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/input_lookup.h"
#include "base/ranks.h"

namespace plimsoll::data {

// An input or an output of the model.
struct Port {
  std::string name;
  std::vector<int64_t> sample_shape{};
  bool class_numbers = false;  // labels name one of the last axis's classes
  bool two_classes = false;    // it is one number, and its loss tells two classes apart
  std::string path{};  // of its samples or labels; empty: they lie in a file with the others'
  std::optional<int64_t> ignored_class{};  // a class number beside those
  // What becomes of an input's strings or whole numbers; null: nothing. `sample_shape` is what
  // it gives.
  std::shared_ptr<const InputLookup> lookup{};
  friend bool operator==(const Port&, const Port&) = default;
};

struct DatasetOptions {
  std::string data;
  std::string labels;           // a file of its own, or empty
  std::string weights;          // one weight per sample, or empty
  std::string spill_directory;  // "": see base/spill_folder.h
  Ranks* ranks = nullptr;       // that open the same data: the first one's standard input is all's
  // What the model takes and gives per sample; empty or 0: not known.
  std::vector<int64_t> sample_shape;
  int64_t target_elements = 0;
  // In the model's order; outputs are those that have a loss. Empty: not known.
  std::vector<Port> inputs{};
  std::vector<Port> outputs{};

  // Tables.
  std::string label_column;           // name, or number from 1; "": see csv_table.h
  std::string columns;                // comma-separated names or numbers; "": all others
  std::string fill;                   // "": missing values are refused; "mean" or a number
  std::string categories = "onehot";  // or "index"
  std::string header = "auto";        // or "yes", "no"
  bool labels_wanted = true;          // false: a label that is missing is no fault
  bool standardize = false;           // numbers as (x − mean) / standard deviation

  // Texts and series.
  std::string text = "characters";  // or "words"
  int64_t vocabulary = 0;           // words that are kept; 0: 10,000
  int64_t window = 0;               // rows of a sample; 0: the model's for a text, else no windows
  int64_t stride = 0;               // rows between samples; 0: see open_forms.h
  int64_t horizon = 1;              // rows from a window's last to its target

  // Folders of images.
  bool skip_damaged = false;
  int threads = 0;      // that decode; 0: as many as the process may use
  std::string cache{};  // a folder for decoded samples (row_cache.h); "": none
  std::optional<Bytes> cache_limit{};

  friend bool operator==(const DatasetOptions&, const DatasetOptions&) = default;
};

}  // namespace plimsoll::data
