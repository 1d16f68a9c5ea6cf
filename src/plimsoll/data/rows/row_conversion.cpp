#include "data/rows/row_conversion.h"

#include <optional>

#include "base/error.h"
#include "base/format.h"

namespace plimsoll::data {

bool RowConversion::is_copy() const {
  return codec::native_dtype(from) == to && to != DType::kBool;
}

void RowConversion::run(int64_t first, int64_t count, const std::byte* source,
                        void* destination) const {
  if (!codec::can_convert(from, to)) {
    throw Error(ErrorKind::kData,
                fmt::format("{}: expected numbers that can be read as {}, received {}.", origin,
                            to_string(to), codec::to_string(from)));
  }
  const int64_t bad = codec::convert_numbers(from, source, to, destination, count);
  if (bad < 0) return;
  throw Error(ErrorKind::kData,
              fmt::format("{}: row {}: expected a whole number that {} can hold, received {}.",
                          origin, (first + bad) / row_elements, to_string(to),
                          codec::number_text(from, source + bad * from.bytes)));
}

DType nearest_dtype(const codec::NumberFormat& format) {
  codec::NumberFormat native = format;
  native.big_endian = false;
  if (const std::optional<DType> dtype = codec::native_dtype(native)) return *dtype;
  // What has no dtype is int16, or an unsigned integer of 2 bytes and more.
  return format.bytes == 2 ? DType::kInt32 : DType::kInt64;
}

}  // namespace plimsoll::data
