#pragma once

// Rows of many files as one array: chunks.
//
// Chunks are opened when a row of theirs is read, at most sixteen at a time, the one that was used
// longest ago making room; what is held of the others is a name and a number of rows.

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "data/rows/row_source.h"

namespace plimsoll::data {

// `open(i)` opens chunk i of `count`; all are opened once to be measured. Throws kData where rows
// of two chunks differ in shape or kind. `beside` is what `open` holds.
std::unique_ptr<RowSource> join_rows(std::string origin, size_t count,
                                     std::function<std::unique_ptr<RowSource>(size_t)> open,
                                     Bytes beside);

}  // namespace plimsoll::data
