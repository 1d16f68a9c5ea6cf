#pragma once

// Integer labels of any width, read as int64.

#include <cstdint>

#include "backend/reference/loops.h"
#include "base/dtype.h"

namespace plimsoll::backend::reference {

inline int64_t read_label(const Operand& labels, DType dtype, int64_t offset) {
  switch (dtype) {
    case DType::kInt32:
      return data_of<const int32_t>(labels)[offset];
    case DType::kInt64:
      return data_of<const int64_t>(labels)[offset];
    case DType::kInt8:
      return data_of<const int8_t>(labels)[offset];
    default:
      return data_of<const uint8_t>(labels)[offset];
  }
}

}  // namespace plimsoll::backend::reference
