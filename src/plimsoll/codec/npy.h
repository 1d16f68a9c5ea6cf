#pragma once

// The header of NumPy's .npy files (versions 1 to 3), read and written.
//
// An .npy file is a header, one Python dictionary in text, and the elements after it. Arrays of
// numbers are read, and of strings of one length (dtype U and S): pickled objects and records are
// refused with a remedy, and nothing is ever unpickled. Format: numpy/lib/format.py.

#include <cstddef>
#include <cstdint>
#include <optional>
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

// Throws kData when it is no .npy file of numbers, when its header is malformed, or when the file
// is too short for what the header promises.
NpyHeader read_npy_header(const ByteReader& file);

// An array of strings, each padded with zeros.
struct NpyStrings {
  int64_t bytes = 0;  // of one
  bool wide = false;  // four bytes a character; false: bytes as they are
  bool big_endian = false;
  bool fortran_order = false;
  std::vector<int64_t> shape;
  int64_t data_offset = 0;
  friend bool operator==(const NpyStrings&, const NpyStrings&) = default;
};

// None where the array is one of numbers. Throws kData as read_npy_header does.
std::optional<NpyStrings> read_npy_strings(const ByteReader& file);
// Appends a string in UTF-8, without its padding. What is no character becomes U+FFFD.
void append_npy_string(const NpyStrings& format, std::span<const std::byte> stored,
                       std::string& text);

// The bytes before the elements of a little-endian C-order array, padded to a multiple of 64.
std::string npy_header_text(DType dtype, std::span<const int64_t> shape);

// True when the file starts as .npy files do.
bool looks_like_npy(const ByteReader& file);

}  // namespace plimsoll::codec
