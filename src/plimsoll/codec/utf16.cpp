#include "codec/utf16.h"

#include <algorithm>
#include <array>
#include <string>
#include <utility>
#include <vector>

#include "base/format.h"
#include "codec/utf8.h"

namespace plimsoll::codec {
namespace {

constexpr size_t kPieceBytes = 64 << 10;
constexpr std::byte kMark[2] = {std::byte{0xFE}, std::byte{0xFF}};

// The first two bytes in the order of a big-endian mark, and whether it is one.
enum class Order { kNone, kBig, kLittle };

Order order_of(const ByteReader& file) {
  std::array<std::byte, 2> start;
  if (file.size() < 2) return Order::kNone;
  file.read_at(0, start);
  if (start[0] == kMark[0] && start[1] == kMark[1]) return Order::kBig;
  return start[0] == kMark[1] && start[1] == kMark[0] ? Order::kLittle : Order::kNone;
}

bool is_high(uint32_t unit) { return unit >= 0xD800 && unit < 0xDC00; }
bool is_low(uint32_t unit) { return unit >= 0xDC00 && unit < 0xE000; }

}  // namespace

bool has_utf16_mark(const ByteReader& file) { return order_of(file) != Order::kNone; }

std::shared_ptr<const FileReader> utf16_to_file(const ByteReader& file, const std::string& folder) {
  const bool big = order_of(file) == Order::kBig;
  auto out = std::make_shared<File>(File::unlinked(folder));
  std::vector<std::byte> piece(kPieceBytes);
  std::string text;
  text.reserve(2 * kPieceBytes);
  int64_t written = 0;
  uint32_t high = 0;  // the first half of a character, 0: none
  const auto refuse = [&](int64_t at) {
    throw Error(ErrorKind::kData,
                fmt::format("{}: byte {}: expected UTF-16 text, as its byte order mark says, "
                            "received half of a character. Write the file again as UTF-8.",
                            file.name(), at));
  };
  for (int64_t begin = 2; begin < file.size(); begin += std::ssize(piece)) {
    const auto count =
        static_cast<size_t>(std::min<int64_t>(std::ssize(piece), file.size() - begin));
    file.read_at(begin, std::span(piece).first(count));
    if (count % 2 != 0) refuse(file.size() - 1);
    for (size_t i = 0; i < count; i += 2) {
      const auto first = std::to_integer<uint32_t>(piece[big ? i : i + 1]);
      const uint32_t unit = first << 8 | std::to_integer<uint32_t>(piece[big ? i + 1 : i]);
      if (is_low(unit) != (high != 0)) refuse(begin + static_cast<int64_t>(i));
      if (is_high(unit)) {
        high = unit;
        continue;
      }
      append_utf8(high == 0 ? unit : 0x10000 + ((high - 0xD800) << 10) + (unit - 0xDC00), text);
      high = 0;
    }
    out->write_at(written, std::as_bytes(std::span(text)));
    written += std::ssize(text);
    text.clear();
  }
  if (high != 0) refuse(file.size() - 2);
  return std::make_shared<const FileReader>(std::move(out), 0, written, file.name());
}

}  // namespace plimsoll::codec
