#pragma once

// Element types. Keras's and NumPy's names are the text form ("float32", "uint8", "bool").

#include <cstdint>
#include <string_view>

#include "base/bytes.h"

namespace plimsoll {

enum class DType : uint8_t {
  kFloat32,
  kFloat64,
  kBFloat16,
  kFloat16,
  kInt32,
  kInt64,
  kInt8,
  kUInt8,
  kBool,   // one byte, 0 or 1
  kBits,   // eight flags a byte; a row (one sample) starts at a byte boundary
  kOpaque  // bytes of a backend's own layout (packed weights); shape is (bytes)
};

// Bytes of one element; kBits has none of its own (see row_bytes in shape.h) and throws kInternal.
Bytes element_bytes(DType dtype);
bool is_floating(DType dtype);
bool is_integer(DType dtype);  // kBool is not
std::string_view to_string(DType dtype);
// Throws kConfig with the known names and a did-you-mean.
DType parse_dtype(std::string_view text);

}  // namespace plimsoll
