#pragma once

// Numbers as text, for the attribute "data" of literal nodes: sixteen hexadecimal digits for each,
// the bits of a double (of an int64 for integers and bool), most significant first.

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/dtype.h"

namespace plimsoll::ops {

std::string literal_text(DType dtype, std::span<const double> values);
// Throws kModel where the text is no such list.
std::vector<double> read_literal(DType dtype, std::string_view text);

}  // namespace plimsoll::ops
