#pragma once

// Logs in UTF-16, as PowerShell writes them after ">": told by their first two bytes (a byte order
// mark, or an ASCII character with its zero) and turned into UTF-8 as they come. What is no
// character becomes U+FFFD; nothing throws.

#include <cstdint>
#include <string>
#include <string_view>

namespace plimsoll::explain {

class Utf16Decoder {
 public:
  // Looks at the first two bytes.
  static bool recognizes(std::string_view head);

  explicit Utf16Decoder(std::string_view head);

  // The text of the next bytes; valid until the next call. Cuts may lie anywhere.
  std::string_view decode(std::string_view bytes);

 private:
  void take(uint32_t unit);

  bool big_endian_ = false;
  bool half_ = false;  // one byte of a unit is held
  uint8_t held_ = 0;
  uint32_t high_ = 0;  // first half of a pair, 0 for none
  std::string text_;
};

}  // namespace plimsoll::explain
