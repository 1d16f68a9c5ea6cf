#pragma once

// How numbers lie in files, and their way into the program's own element types.
//
// Files hold more kinds of numbers than the program computes with (uint16, big-endian float64 …).
// Conversion is element by element, so that a slice of any file can be converted on its own, with
// NumPy's arithmetic: to floating point it rounds to nearest, and a float64 beyond float32's range
// becomes infinite. To an integer every value must be one and fit; the first that is not is
// reported, never wrapped around.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "base/dtype.h"

namespace plimsoll::codec {

struct NumberFormat {
  enum class Kind : uint8_t { kFloat, kBFloat, kSigned, kUnsigned, kBool };

  Kind kind = Kind::kFloat;
  int bytes = 4;  // kFloat: 2, 4, 8; kBFloat: 2; integers: 1, 2, 4, 8; kBool: 1
  bool big_endian = false;

  friend bool operator==(const NumberFormat&, const NumberFormat&) = default;
};

// "float32", "uint16", "big-endian float64".
std::string to_string(const NumberFormat& format);
// How values of `dtype` lie in this machine's memory (little-endian). kBits and kOpaque are no
// numbers: kInternal.
NumberFormat native_format(DType dtype);
// The dtype whose memory form this is; none for the formats that have no dtype.
std::optional<DType> native_dtype(const NumberFormat& format);

// Converts `count` numbers at `source` (any alignment) to `to` at `destination` (dense; may not
// overlap). Destinations: float32, float64, int32, int64, or the format's own dtype. Returns the
// index of the first value that `to` cannot hold (a fraction, NaN or too large for an integer), or
// -1; values before it are converted. Booleans: any byte but 0 is 1.
int64_t convert_numbers(const NumberFormat& from, const std::byte* source, DType to,
                        void* destination, int64_t count);
bool can_convert(const NumberFormat& from, DType to);

// One number as text, for messages.
std::string number_text(const NumberFormat& format, const std::byte* source);

float half_to_float(uint16_t half);
// Round to nearest even; beyond the range becomes infinite.
uint16_t float_to_half(float value);

}  // namespace plimsoll::codec
