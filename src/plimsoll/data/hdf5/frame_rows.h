#pragma once

// Some columns of several arrays with as many rows, side by side. Internal to data.
//
// A data frame keeps the columns of one type in an array, or each in one of its own. Few arrays are
// read where they lie. Many would take buffers and decoded chunks each: their columns are copied
// once, one array after another, into an unlinked file, and read as one array.

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "data/rows/row_source.h"

namespace plimsoll::data {

// Where a column's numbers are.
struct FrameColumn {
  std::string name;
  size_t block = 0;
  int64_t place = 0;               // in a row of it
  DType stored = DType::kFloat64;  // what they are there
};

// A column's rows as labels, or the rows of several as features. Blocks are shared by both; one of
// them counts their memory.
std::unique_ptr<RowSource> frame_label(std::vector<std::shared_ptr<RowSource>> blocks,
                                       const FrameColumn& column);
std::unique_ptr<RowSource> frame_features(std::vector<std::shared_ptr<RowSource>> blocks,
                                          std::vector<FrameColumn> columns);

using OpenBlock = std::function<std::shared_ptr<RowSource>(size_t block)>;

// The blocks of `columns`, opened; `columns` are changed to where they are in them. `peak` becomes
// the most that this held.
std::vector<std::shared_ptr<RowSource>> open_blocks(std::vector<FrameColumn>& columns,
                                                    const OpenBlock& open,
                                                    const std::string& spill_directory,
                                                    Bytes& peak);

}  // namespace plimsoll::data
