#include "codec/tf_record.h"

#include <array>
#include <cstring>

#include "codec/byte_cursor.h"
#include "codec/crc32c.h"

namespace plimsoll::codec {
namespace {

constexpr uint64_t kMaxRecordBytes = 64 << 20;
constexpr int64_t kHeadBytes = 12;
constexpr int64_t kTailBytes = 4;

uint64_t little_endian(std::span<const std::byte> bytes) {
  uint64_t value = 0;
  for (size_t i = bytes.size(); i-- > 0;)
    value = (value << 8) | std::to_integer<uint64_t>(bytes[i]);
  return value;
}

// One field of a protobuf message after another.
class Message {
 public:
  Message(std::span<const std::byte> bytes, const ByteCursor::Fail& fail)
      : cursor_(bytes, fail), fail_(fail) {}

  // The number of the next field, 0 at the end. Its content is in `bytes` (lengths and fixed
  // widths) or `number`.
  uint64_t next() {
    if (cursor_.left() == 0) return 0;
    const uint64_t key = varint();
    wire = key & 7;
    switch (wire) {
      case 0:
        number = varint();
        break;
      case 1:
        bytes = cursor_.take_bytes(8);
        break;
      case 2:
        bytes = cursor_.take_bytes(varint());
        break;
      case 5:
        bytes = cursor_.take_bytes(4);
        break;
      default:
        fail_("a field of wire type " + std::to_string(wire));
    }
    if (key >> 3 == 0) fail_("a field of number 0");
    return key >> 3;
  }
  uint64_t varint() {
    uint64_t value = 0;
    for (int shift = 0; shift < 64; shift += 7) {
      const uint64_t byte = cursor_.take(1);
      value |= (byte & 0x7F) << shift;
      if (byte < 0x80) return value;
    }
    fail_("a number of more than ten bytes");
    return 0;
  }
  size_t left() const { return cursor_.left(); }

  uint64_t wire = 0;
  uint64_t number = 0;
  std::span<const std::byte> bytes;

 private:
  ByteCursor cursor_;
  const ByteCursor::Fail& fail_;
};

float float_of(std::span<const std::byte> bytes) {
  float value = 0;
  std::memcpy(&value, bytes.data(), sizeof value);
  return value;
}

void take_floats(Message& list, ExampleFeature& feature, const ByteCursor::Fail& fail) {
  while (const uint64_t field = list.next()) {
    if (field != 1) continue;
    if (list.wire != 2 && list.wire != 5) fail("floats that are none");
    if (list.bytes.size() % 4 != 0) fail("floats of another length than four bytes");
    for (size_t i = 0; i < list.bytes.size(); i += 4) {
      feature.floats.push_back(float_of(list.bytes.subspan(i, 4)));
    }
  }
}

void take_integers(Message& list, ExampleFeature& feature, const ByteCursor::Fail& fail) {
  while (const uint64_t field = list.next()) {
    if (field != 1) continue;
    if (list.wire == 0) {
      feature.integers.push_back(static_cast<int64_t>(list.number));
      continue;
    }
    if (list.wire != 2) fail("integers that are none");
    Message packed(list.bytes, fail);
    while (packed.left() > 0) feature.integers.push_back(static_cast<int64_t>(packed.varint()));
  }
}

void take_bytes(Message& list, ExampleFeature& feature, const ByteCursor::Fail& fail) {
  while (const uint64_t field = list.next()) {
    if (field != 1) continue;
    if (list.wire != 2) fail("bytes that are none");
    feature.bytes.push_back(list.bytes);
  }
}

void take_feature(std::span<const std::byte> bytes, ExampleFeature& feature,
                  const ByteCursor::Fail& fail) {
  using Kind = ExampleFeature::Kind;
  Message message(bytes, fail);
  while (const uint64_t field = message.next()) {
    if (field > 3) continue;
    if (message.wire != 2) fail("a feature that is no list");
    Message list(message.bytes, fail);
    feature.kind = field == 1 ? Kind::kBytes : field == 2 ? Kind::kFloats : Kind::kIntegers;
    if (field == 1) take_bytes(list, feature, fail);
    if (field == 2) take_floats(list, feature, fail);
    if (field == 3) take_integers(list, feature, fail);
  }
}

void take_entry(std::span<const std::byte> bytes, std::vector<ExampleFeature>& features,
                const ByteCursor::Fail& fail) {
  ExampleFeature feature;
  Message entry(bytes, fail);
  while (const uint64_t field = entry.next()) {
    if (field > 2) continue;
    if (entry.wire != 2) fail("an entry that is none");
    if (field == 1) {
      feature.name.assign(reinterpret_cast<const char*>(entry.bytes.data()), entry.bytes.size());
    } else {
      take_feature(entry.bytes, feature, fail);
    }
  }
  features.push_back(std::move(feature));
}

}  // namespace

void TfRecordReader::refuse(const std::string& what) const {
  throw Error(ErrorKind::kData, file_->name() + ": record " + std::to_string(index_) +
                                    ": expected a whole record of a TFRecord file, received " +
                                    what + ".");
}

bool TfRecordReader::next() {
  const int64_t left = file_->size() - offset_;
  if (left == 0) return false;
  ++index_;
  if (left < kHeadBytes + kTailBytes) refuse("the end of the file");
  std::array<std::byte, kHeadBytes> head;
  file_->read_at(offset_, head);
  const uint64_t length = little_endian(std::span(head).first(8));
  if (little_endian(std::span(head).subspan(8)) != masked_crc32c(std::span(head).first(8))) {
    refuse("a length whose checksum is wrong");
  }
  if (length > kMaxRecordBytes) {
    refuse("one of " + std::to_string(length) + " bytes (64 MiB at most are read)");
  }
  const auto bytes = static_cast<int64_t>(length);
  if (bytes > left - kHeadBytes - kTailBytes) refuse("the end of the file");
  record_.resize(static_cast<size_t>(bytes));
  file_->read_at(offset_ + kHeadBytes, record_);
  std::array<std::byte, kTailBytes> tail;
  file_->read_at(offset_ + kHeadBytes + bytes, tail);
  if (little_endian(tail) != masked_crc32c(record_)) refuse("data whose checksum is wrong");
  offset_ += kHeadBytes + bytes + kTailBytes;
  return true;
}

std::vector<std::byte> tf_record_frame(std::span<const std::byte> data) {
  ByteBuilder builder;
  builder.put(data.size(), 8);
  builder.put(masked_crc32c(builder.bytes()), 4);
  builder.put_bytes(data);
  builder.put(masked_crc32c(data), 4);
  return {builder.bytes().begin(), builder.bytes().end()};
}

std::vector<ExampleFeature> parse_example(std::span<const std::byte> record,
                                          const std::string& where) {
  const ByteCursor::Fail fail = [&](const std::string& what) {
    throw Error(ErrorKind::kData, where + ": expected a tf.train.Example, received " + what + ".");
  };
  std::vector<ExampleFeature> features;
  Message example(record, fail);
  while (const uint64_t field = example.next()) {
    if (field != 1) continue;
    if (example.wire != 2) fail("features that are no message");
    Message map(example.bytes, fail);
    while (const uint64_t entry = map.next()) {
      if (entry != 1) continue;
      if (map.wire != 2) fail("a feature that is no message");
      take_entry(map.bytes, features, fail);
    }
  }
  return features;
}

}  // namespace plimsoll::codec
