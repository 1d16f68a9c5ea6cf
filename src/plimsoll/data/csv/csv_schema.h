#pragma once

// What the columns of a CSV file are: names, numbers or categories, which one is the label.
//
// One pass over the file decides, a second one where numbers are in another style than a plain one
// (csv_values.h). A column is of numbers where every value in it is one; otherwise its distinct
// values, sorted bytewise, are its categories, and a column of numbers that became one of
// categories is said, with the value that did it. Infinity among numbers is refused, wherever it
// stands. The label is the column that the user names, else one that is called label, target, class
// or y, else the last. A first record without a number above a column that has some is a header; so
// is a comment that has as many names. Missing values are refused with line and column unless there
// is something to fill in. A first column without a name that counts the rows is left out. What is
// held is bounded: 10,000 categories a column, 8 MiB in all.
//
// A model of several inputs takes the columns that are called as they are; one input that has no
// column of its name takes what is left. Columns whose values the model looks up in a vocabulary of
// its own have no categories: their fields are taken as they are written (lookup/field_ids.h).

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "codec/byte_reader.h"
#include "codec/csv.h"
#include "data/csv/csv_values.h"
#include "data/lookup/field_ids.h"
#include "data/rows/dataset_options.h"

namespace plimsoll::data {

struct CsvColumn {
  std::string name;  // the header's, or "column 3"
  bool used = true;  // as a feature
  bool text = false;
  NumberStyle style = NumberStyle::kPlain;  // of numbers
  std::vector<std::string> categories;      // sorted; of text
  double mean = 0;                          // of numbers
  double deviation = 1;                     // standard deviation; 1 where all numbers are equal
  std::shared_ptr<FieldIds> ids{};          // of what the model looks up; null: nothing
  friend bool operator==(const CsvColumn&, const CsvColumn&) = default;
};

struct CsvSchema {
  codec::CsvDialect dialect;
  bool header = false;  // of the first record
  std::vector<CsvColumn> columns;
  // Columns of each of the model's inputs; empty: all that are used are those of one.
  std::vector<std::vector<size_t>> inputs;
  int label = -1;                  // index of the label's column; -1: the labels are elsewhere
  int64_t rows = 0;                // records without the header
  std::string fill;                // as in DatasetOptions
  std::string origin;              // the file, for messages
  std::vector<std::string> notes;  // of what was found and not asked for
  // Rows without a label are left out where missing values are filled: no label is made up. One
  // that is a feature too, or a window's target, is filled as a feature.
  bool leaves_out_unlabelled = false;
  bool wants_labels = true;
  Bytes opening_peak{};  // the most that finding this held
  Bytes resident_bytes() const;
  friend bool operator==(const CsvSchema&, const CsvSchema&) = default;
};

// Throws kData naming line and column, kConfig where options name what is not there.
CsvSchema infer_csv(const std::shared_ptr<const codec::FileReader>& file,
                    const DatasetOptions& options);

}  // namespace plimsoll::data
