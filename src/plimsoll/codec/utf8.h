#pragma once

// Characters of UTF-8 text.

#include <cstddef>
#include <string_view>

namespace plimsoll::codec {

// Bytes of the character that `text` begins with, 1 to 4; 0 where it begins with none (a stray or
// overlong byte, a surrogate, a character that is cut short). `text` is not empty.
size_t utf8_length(std::string_view text);

}  // namespace plimsoll::codec
