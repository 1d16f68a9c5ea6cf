#pragma once

// A data frame that pandas wrote in its table format: records, as PyTables writes them.
//
//   df/table   (rows), of index, values_block_0 (so many numbers), …, and columns by their names
//
// Columns of one type are one field, but for those that df.to_hdf(data_columns=…) names. Which
// columns a field holds is said by pickles alone, and a pickle is a program: it is not read. Such
// columns are called by field and position, values_block_0[1]. Attributes in plain text
// (values_block_0_dtype) tell numbers from dates and categories. Internal to data.

#include <memory>
#include <string>
#include <vector>

#include "codec/hdf5/hdf5_reader.h"
#include "data/rows/row_source.h"

namespace plimsoll::data {

// Throws kData where a frame of the file has more columns than can be named one by one.
void check_width(const codec::Hdf5Reader& file, size_t columns);

struct TableColumn {
  std::string name;
  codec::NumberFormat format;
  int64_t offset = 0;  // in a record
  DType stored = DType::kFloat64;
};

struct TableFields {
  int64_t rows = 0;
  std::vector<TableColumn> columns;  // of numbers, in order
  size_t left_out = 0;               // that are no numbers
  bool has_names = true;             // all of them are called as the frame's columns
};

// Throws kModel or kData where the dataset is no such table.
TableFields read_table_fields(const codec::Hdf5Reader& file, const std::string& path);

// Rows of all columns of numbers, read as float64 alone.
std::unique_ptr<RowSource> open_table_rows(const codec::Hdf5Reader& file, const std::string& path,
                                           const std::string& spill_directory);

}  // namespace plimsoll::data
