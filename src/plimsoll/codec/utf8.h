#pragma once

// Characters of UTF-8 text.

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace plimsoll::codec {

// Bytes of the character that `text` begins with, 1 to 4; 0 where it begins with none (a stray or
// overlong byte, a surrogate, a character that is cut short). `text` is not empty.
size_t utf8_length(std::string_view text);

// `code` is a character: below 0x110000, and no surrogate.
void append_utf8(uint32_t code, std::string& text);

}  // namespace plimsoll::codec
