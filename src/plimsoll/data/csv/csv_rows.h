#pragma once

// Samples of a CSV file: its columns as numbers, converted once.
//
// Records differ in length and numbers are text, so the file is parsed once, in order, into an
// unlinked file of one float64 a column and record: the number, or the category's index. Reading
// rows in any order is then as cheap as from an .npy. Features come out as one number a numeric
// column and, for a category, one number a category (1 where it is this one) or its index.
//
//   39, State-gov, <=50K    →    [39, 7, 0]    →    x = [39, 0 0 0 0 0 0 0 1 0], y = 0
//
// Where the model looks values up, what it finds is in that file: the number of a word, and in a
// file beside it the numbers of a text's tokens.
//
// A table of at most 256 KiB is kept in memory. Memory while parsing: two buffers of up to 1 MiB.

#include <memory>
#include <string>
#include <vector>

#include "data/csv/csv_schema.h"
#include "data/rows/row_source.h"

namespace plimsoll::data {

struct CsvSources {
  Bytes opening_peak{};                              // the most that converting held
  std::vector<std::unique_ptr<RowSource>> features;  // one, or one for each of the schema's inputs
  std::unique_ptr<RowSource> labels;                 // null where no column is the label
  bool counts_schema = true;                         // one of them counts what the schema holds
  std::vector<std::string> notes;                    // of rows that were left out
};

// `schema` is the file's own, or the training data's: then `like` is true, columns must be the same
// and a category that is not in it is refused unless there is a fill. The label's column may be
// missing from such a file. Throws kData naming line and column.
CsvSources open_csv(const std::shared_ptr<const codec::FileReader>& file,
                    std::shared_ptr<const CsvSchema> schema, bool like,
                    const DatasetOptions& options);

}  // namespace plimsoll::data
