#include "explain/read/utf16.h"

#include "explain/read/number.h"

namespace plimsoll::explain {

bool Utf16Decoder::recognizes(std::string_view head) {
  if (head.size() < 2) return false;
  const auto first = static_cast<uint8_t>(head[0]);
  const auto second = static_cast<uint8_t>(head[1]);
  if ((first == 0xff && second == 0xfe) || (first == 0xfe && second == 0xff)) return true;
  const auto is_text = [](uint8_t c) { return c >= 0x20 && c < 0x7f; };
  return (is_text(first) && second == 0) || (first == 0 && is_text(second));
}

Utf16Decoder::Utf16Decoder(std::string_view head)
    : big_endian_(head[0] == 0 || static_cast<uint8_t>(head[0]) == 0xfe) {}

std::string_view Utf16Decoder::decode(std::string_view bytes) {
  text_.clear();
  for (const char c : bytes) {
    const auto byte = static_cast<uint8_t>(c);
    if (!half_) {
      held_ = byte;
      half_ = true;
      continue;
    }
    half_ = false;
    take(big_endian_ ? uint32_t{held_} << 8 | byte : uint32_t{byte} << 8 | held_);
  }
  return text_;
}

void Utf16Decoder::take(uint32_t unit) {
  constexpr uint32_t kNone = 0xfffd;
  if (unit == 0xfeff) return;  // the mark itself
  if (high_ != 0) {
    const bool pair = unit >= 0xdc00 && unit < 0xe000;
    append_utf8(pair ? 0x10000 + ((high_ - 0xd800) << 10) + (unit - 0xdc00) : kNone, text_);
    high_ = 0;
    if (pair) return;
  }
  if (unit >= 0xd800 && unit < 0xdc00) {
    high_ = unit;
  } else {
    append_utf8(unit >= 0xdc00 && unit < 0xe000 ? kNone : unit, text_);
  }
}

}  // namespace plimsoll::explain
