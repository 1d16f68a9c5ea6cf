#pragma once

// The header of NumPy's .npy files (versions 1 to 3), read and written.
//
// An .npy file is a header, one Python dictionary in text, and the elements after it. Only arrays
// of numbers are read: pickled objects, records and text are refused with a remedy, and nothing is
// ever unpickled. Format: numpy/lib/format.py.

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "codec/byte_reader.h"
#include "codec/number_format.h"

namespace plimsoll::codec {

struct NpyHeader {
  NumberFormat format;
  bool fortran_order = false;  // the first axis varies fastest
  std::vector<int64_t> shape;
  int64_t data_offset = 0;  // of the first element
  friend bool operator==(const NpyHeader&, const NpyHeader&) = default;
};

// Throws kData when it is no .npy file, when its header is malformed, or when the file is too short
// for what the header promises.
NpyHeader read_npy_header(const ByteReader& file);

// The bytes before the elements of a little-endian C-order array, padded to a multiple of 64.
std::string npy_header_text(DType dtype, std::span<const int64_t> shape);

// True when the file starts as .npy files do.
bool looks_like_npy(const ByteReader& file);

}  // namespace plimsoll::codec
