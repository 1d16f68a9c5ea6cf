#include "base/dtype.h"

#include <array>
#include <string>

#include "base/error.h"
#include "base/suggest.h"

namespace plimsoll {
namespace {

struct Row {
  std::string_view name;
  int bytes;  // 0: has none of its own
};

// In the order of DType.
constexpr std::array<Row, 11> kRows = {{{"float32", 4},
                                        {"float64", 8},
                                        {"bfloat16", 2},
                                        {"float16", 2},
                                        {"int32", 4},
                                        {"int64", 8},
                                        {"int8", 1},
                                        {"uint8", 1},
                                        {"bool", 1},
                                        {"bits", 0},
                                        {"opaque", 1}}};

const Row& row_of(DType dtype) { return kRows[static_cast<size_t>(dtype)]; }

}  // namespace

Bytes element_bytes(DType dtype) {
  const Row& row = row_of(dtype);
  PLIMSOLL_CHECK(row.bytes > 0, "an element of " + std::string(row.name) + " has no size");
  return Bytes(row.bytes);
}

bool is_floating(DType dtype) {
  return dtype == DType::kFloat32 || dtype == DType::kFloat64 || dtype == DType::kBFloat16 ||
         dtype == DType::kFloat16;
}

bool is_integer(DType dtype) {
  return dtype == DType::kInt32 || dtype == DType::kInt64 || dtype == DType::kInt8 ||
         dtype == DType::kUInt8;
}

std::string_view to_string(DType dtype) { return row_of(dtype).name; }

DType parse_dtype(std::string_view text) {
  std::array<std::string_view, kRows.size()> names;
  std::string known;
  for (size_t i = 0; i < kRows.size(); ++i) {
    if (kRows[i].name == text) return static_cast<DType>(i);
    names[i] = kRows[i].name;
    known += (i == 0 ? "" : ", ") + std::string(kRows[i].name);
  }
  throw Error(ErrorKind::kConfig, "dtype: expected one of " + known + ", received \"" +
                                      std::string(text) + "\"." + did_you_mean(text, names));
}

}  // namespace plimsoll
