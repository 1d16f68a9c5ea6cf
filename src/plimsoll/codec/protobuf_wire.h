#pragma once

// Protocol Buffers on the wire: the fields of a message, read one after another and put one after
// another.
//
//   key (varint: number of the field << 3 | wire type) · content
//
// Two users need it: TFRecord files of tf.train.Example, and TensorBoard's event files. Nothing is
// known of a message's meaning: who reads asks for the numbers that it knows and passes over the
// rest; who writes names them. Groups (wire types 3 and 4) are refused. Source: protobuf.dev,
// "Encoding".

#include <bit>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>

#include "codec/byte_cursor.h"

namespace plimsoll::codec {

enum class WireType : uint8_t { kVarint = 0, kFixed64 = 1, kLength = 2, kFixed32 = 5 };

// Reads the fields in [begin, end) of what `window.at(offset, most)` shows: bytes from `offset` on,
// at least one of them and at most `most`. `fail` must throw.
template <typename Window>
class ProtobufFields {
 public:
  using Fail = std::function<void(const std::string&)>;

  ProtobufFields(Window& window, int64_t begin, int64_t end, const Fail& fail)
      : window_(window), at_(begin), stop_(end), fail_(fail) {}

  // The number of the next field, 0 at the end. Its content is [begin, end) (lengths and fixed
  // widths) or `number`.
  uint64_t next();
  uint64_t varint();
  bool at_end() const { return at_ == stop_; }

  WireType type = WireType::kVarint;
  uint64_t number = 0;
  int64_t begin = 0;
  int64_t end = 0;

 private:
  void take_content(uint64_t bytes);

  Window& window_;
  int64_t at_;
  int64_t stop_;
  const Fail& fail_;
};

// Puts fields one after another.
class ProtobufBuilder {
 public:
  ProtobufBuilder& varint(int field, uint64_t value) {
    key(field, WireType::kVarint);
    put_varint(value);
    return *this;
  }
  ProtobufBuilder& fixed64(int field, double value) {
    key(field, WireType::kFixed64);
    bytes_.put(std::bit_cast<uint64_t>(value), 8);
    return *this;
  }
  ProtobufBuilder& fixed32(int field, float value) {
    key(field, WireType::kFixed32);
    bytes_.put(std::bit_cast<uint32_t>(value), 4);
    return *this;
  }
  ProtobufBuilder& text(int field, std::string_view content) {
    return bytes(field, std::as_bytes(std::span(content)));
  }
  ProtobufBuilder& message(int field, const ProtobufBuilder& content) {
    return bytes(field, content.bytes());
  }
  ProtobufBuilder& bytes(int field, std::span<const std::byte> content) {
    key(field, WireType::kLength);
    put_varint(content.size());
    bytes_.put_bytes(content);
    return *this;
  }
  std::span<const std::byte> bytes() const { return bytes_.bytes(); }

 private:
  void key(int field, WireType type) {
    put_varint(static_cast<uint64_t>(field) << 3 | static_cast<uint64_t>(type));
  }
  void put_varint(uint64_t value) {
    for (; value >= 0x80; value >>= 7) bytes_.put((value & 0x7F) | 0x80, 1);
    bytes_.put(value, 1);
  }

  ByteBuilder bytes_;
};

template <typename Window>
uint64_t ProtobufFields<Window>::next() {
  if (at_end()) return 0;
  const uint64_t key = varint();
  const uint64_t field = key >> 3;
  type = static_cast<WireType>(key & 7);
  switch (type) {
    case WireType::kVarint:
      number = varint();
      break;
    case WireType::kFixed64:
      take_content(8);
      break;
    case WireType::kLength:
      take_content(varint());
      break;
    case WireType::kFixed32:
      take_content(4);
      break;
    default:
      fail_("a field of wire type " + std::to_string(key & 7));
  }
  if (field == 0) fail_("a field of number 0");
  return field;
}

template <typename Window>
void ProtobufFields<Window>::take_content(uint64_t bytes) {
  if (bytes > static_cast<uint64_t>(stop_ - at_)) {
    fail_("a field of " + std::to_string(bytes) + " bytes where " + std::to_string(stop_ - at_) +
          " are left");
  }
  begin = at_;
  at_ += static_cast<int64_t>(bytes);
  end = at_;
}

template <typename Window>
uint64_t ProtobufFields<Window>::varint() {
  uint64_t value = 0;
  for (int shift = 0; shift < 64; shift += 7) {
    if (at_end()) fail_("a number that is cut short");
    const auto byte = std::to_integer<uint64_t>(window_.at(at_++, 1).front());
    value |= (byte & 0x7F) << shift;
    if (byte < 0x80) return value;
  }
  fail_("a number of more than ten bytes");
  return 0;
}

}  // namespace plimsoll::codec
