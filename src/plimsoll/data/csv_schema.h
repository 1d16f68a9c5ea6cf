#pragma once

// What the columns of a CSV file are: names, numbers or categories, which one is the label.
//
// One pass over the file decides. A column is of numbers where every value in it is one; otherwise
// its distinct values, sorted bytewise, are its categories. Infinity among numbers is refused,
// wherever it stands. The label is the column that the user names, else one that is called label,
// target, class or y, else the last. A first record without a number above a column that has some
// is a header. Missing is an empty field, `?`, `NA`, `N/A`, `NaN`, `null` or `None`: refused with
// line and column unless there is something to fill in. What is held is bounded: 10,000 categories
// a column, 8 MiB in all.

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "codec/byte_reader.h"
#include "data/dataset_options.h"

namespace plimsoll::data {

struct CsvColumn {
  std::string name;  // the header's, or "column 3"
  bool used = true;  // as a feature or as the label
  bool text = false;
  std::vector<std::string> categories;  // sorted; of text
  double mean = 0;                      // of numbers
  double deviation = 1;                 // standard deviation; 1 where all numbers are equal
  friend bool operator==(const CsvColumn&, const CsvColumn&) = default;
};

struct CsvSchema {
  char delimiter = ',';
  bool header = false;
  std::vector<CsvColumn> columns;
  int label = -1;      // index of the label's column; -1: the labels are elsewhere
  int64_t rows = 0;    // records without the header
  std::string fill;    // as in DatasetOptions
  std::string origin;  // the file, for messages
  Bytes resident_bytes() const;
  friend bool operator==(const CsvSchema&, const CsvSchema&) = default;
};

// Throws kData naming line and column, kConfig where options name what is not there.
CsvSchema infer_csv(const std::shared_ptr<const codec::FileReader>& file,
                    const DatasetOptions& options);

// Whether a field stands for a value that is not there.
bool is_missing(std::string_view field);

}  // namespace plimsoll::data
