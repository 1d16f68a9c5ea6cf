#pragma once

// The header of IDX files, the form of MNIST and its relatives.
//
//   0 0 type rank · extent (4 bytes, big-endian) for each axis · elements, big-endian, C order
//
// Source: http://yann.lecun.com/exdb/mnist/.

#include <cstdint>
#include <vector>

#include "codec/byte_reader.h"
#include "codec/number_format.h"

namespace plimsoll::codec {

struct IdxHeader {
  NumberFormat format;
  std::vector<int64_t> shape;
  int64_t data_offset = 0;
  friend bool operator==(const IdxHeader&, const IdxHeader&) = default;
};

// True when the file starts as an IDX file does and is long enough for what it promises.
bool looks_like_idx(const ByteReader& file);

// Throws kData when it is no IDX file or its size is not what its header says.
IdxHeader read_idx_header(const ByteReader& file);

}  // namespace plimsoll::codec
