#include "codec/protobuf_wire.h"

#include <gtest/gtest.h>

#include <array>
#include <limits>

#include "codec/utf8.h"
#include "unit/base/expect_error.h"
#include "unit/codec/memory_files.h"

namespace plimsoll::codec {
namespace {

using test::expect_error;

// Shows `step` bytes at a time, as a window over a file does at its ends.
struct Shown {
  std::string text;
  size_t step = 1;
  std::span<const std::byte> at(int64_t offset, int64_t most) {
    return std::as_bytes(std::span(text))
        .subspan(static_cast<size_t>(offset), std::min(step, static_cast<size_t>(most)));
  }
};

const ByteCursor::Fail kFail = [](const std::string& what) { throw Error(ErrorKind::kData, what); };

std::string text_of(const ProtobufBuilder& message) { return codec::text_of(message.bytes()); }

// The examples of protobuf.dev, "Encoding".
TEST(ProtobufWire, KnownBytes) {
  EXPECT_EQ(text_of(ProtobufBuilder().varint(1, 150)), "\x08\x96\x01");
  EXPECT_EQ(text_of(ProtobufBuilder().text(2, "testing")), "\x12\x07testing");
  EXPECT_EQ(text_of(ProtobufBuilder().message(3, ProtobufBuilder().varint(1, 150))),
            "\x1a\x03\x08\x96\x01");
}

TEST(ProtobufWire, WhatIsPutIsRead) {
  constexpr std::array<uint64_t, 6> kNumbers = {
      0, 1, 127, 128, uint64_t{1} << 63, std::numeric_limits<uint64_t>::max()};
  ProtobufBuilder message;
  for (const uint64_t number : kNumbers) message.varint(7, number);
  message.fixed64(2, 1.5).fixed32(300, -0.5f).text(4, std::string(200, 'x'));
  Shown shown{text_of(message)};
  ProtobufFields<Shown> fields(shown, 0, std::ssize(shown.text), kFail);
  for (const uint64_t number : kNumbers) {
    ASSERT_EQ(fields.next(), 7u);
    EXPECT_EQ(fields.type, WireType::kVarint);
    EXPECT_EQ(fields.number, number);
  }
  const auto content = [&] {
    return shown.text.substr(static_cast<size_t>(fields.begin),
                             static_cast<size_t>(fields.end - fields.begin));
  };
  ASSERT_EQ(fields.next(), 2u);
  EXPECT_EQ(fields.type, WireType::kFixed64);
  EXPECT_EQ(content(), std::string("\0\0\0\0\0\0\xF8\x3F", 8));
  ASSERT_EQ(fields.next(), 300u);
  EXPECT_EQ(fields.type, WireType::kFixed32);
  EXPECT_EQ(content(), std::string("\0\0\0\xBF", 4));
  ASSERT_EQ(fields.next(), 4u);
  EXPECT_EQ(fields.type, WireType::kLength);
  EXPECT_EQ(content(), std::string(200, 'x'));
  EXPECT_EQ(fields.next(), 0u);
}

TEST(ProtobufWire, WhatIsNoMessageIsRefused) {
  const auto read = [](const std::string& text) {
    Shown shown{text};
    ProtobufFields<Shown> fields(shown, 0, std::ssize(text), kFail);
    while (fields.next() != 0) {
    }
  };
  expect_error(ErrorKind::kData, "cut short", [&] { read("\x08\x96"); });
  expect_error(ErrorKind::kData, "of more than ten bytes",
               [&] { read("\x08" + std::string(11, '\xFF')); });
  expect_error(ErrorKind::kData, "a field of 7 bytes where 4 are left",
               [&] { read("\x12\x07test"); });
  expect_error(ErrorKind::kData, "a field of wire type 3", [&] { read("\x0B"); });
  expect_error(ErrorKind::kData, "a field of number 0", [&] { read(std::string("\x00\x00", 2)); });
}

}  // namespace
}  // namespace plimsoll::codec
