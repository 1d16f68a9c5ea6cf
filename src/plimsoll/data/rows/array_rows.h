#pragma once

// Rows of a dense C-order array of numbers in a file. Internal to data.
//
// Rows that need no conversion are read straight into their destination. Others pass through 32 KiB
// of the reading thread's stack, element by element, so that one row may be of any size and several
// threads may read at once. An array of at most 256 KiB is kept in memory whole: reading it row by
// row would cost more calls than it is worth; one of up to 4 MiB, such as the labels of half a
// million samples, where it is asked to. Nothing is allocated by read.

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "codec/byte_reader.h"
#include "codec/number_format.h"
#include "data/rows/row_source.h"

namespace plimsoll::data {

// A dense array of numbers: format, shape and where its first element is.
struct ArrayPlace {
  std::shared_ptr<const codec::FileReader> file;
  codec::NumberFormat format;
  std::vector<int64_t> shape;
  int64_t data_offset = 0;
  bool fortran_order = false;
};

// The same array in C order, in an unlinked file in `spill_directory`.
ArrayPlace to_c_order(const ArrayPlace& array, const std::string& spill_directory);

// What that holds for a while.
Bytes c_order_bytes(const ArrayPlace& array);

// `array` is in C order. Throws kData where it has no rows or rows without elements.
std::unique_ptr<RowSource> make_array_rows(const ArrayPlace& array);

}  // namespace plimsoll::data
