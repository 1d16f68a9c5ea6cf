#pragma once

// Converting elements of rows, with errors that name the row. Internal to data.

#include <cstddef>
#include <cstdint>
#include <string>

#include "base/dtype.h"
#include "codec/number_format.h"

namespace plimsoll::data {

struct RowConversion {
  const codec::NumberFormat& from;
  DType to;
  int64_t row_elements;
  const std::string& origin;

  // Elements are the same bytes in the file and in memory.
  bool is_copy() const;
  // Converts `count` elements, the first of which is element `first` of the whole array. Throws
  // kData naming file, row and value where `to` cannot hold one.
  void run(int64_t first, int64_t count, const std::byte* source, void* destination) const;
};

// The dtype that holds every value of a format: the format's own, else the next wider one.
DType nearest_dtype(const codec::NumberFormat& format);

}  // namespace plimsoll::data
