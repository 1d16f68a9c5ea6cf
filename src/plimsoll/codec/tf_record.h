#pragma once

// TensorFlow's record files: framing, and tf.train.Example inside of it.
//
//   length (8) · masked CRC-32C of it (4) · data · masked CRC-32C of them (4)      little-endian
//
// One record is held at a time, of at most 64 MiB; lengths and checksums are verified before
// anything is believed. An Example is read as views into its record. Fields that are not known are
// skipped, as protobuf says. Source: tensorflow/core/lib/io/record_writer.h,
// tensorflow/core/example/feature.proto.

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "codec/byte_reader.h"

namespace plimsoll::codec {

class TfRecordReader {
 public:
  explicit TfRecordReader(std::shared_ptr<const ByteReader> file) : file_(std::move(file)) {}
  // Moves to the next record; false at the end. Throws kData with the number of the record.
  bool next();
  std::span<const std::byte> record() const { return record_; }
  int64_t index() const { return index_; }  // of the record, from 0

 private:
  [[noreturn]] void refuse(const std::string& what) const;

  std::shared_ptr<const ByteReader> file_;
  int64_t offset_ = 0;
  int64_t index_ = -1;
  std::vector<std::byte> record_;
};

// The framing of one record.
std::vector<std::byte> tf_record_frame(std::span<const std::byte> data);

struct ExampleFeature {
  enum class Kind : uint8_t { kNone, kBytes, kFloats, kIntegers };
  std::string name;
  Kind kind = Kind::kNone;
  std::vector<std::span<const std::byte>> bytes;  // views into the record
  std::vector<float> floats;
  std::vector<int64_t> integers;
};

// Features by name, as they stand. Throws kData; `where` begins the message.
std::vector<ExampleFeature> parse_example(std::span<const std::byte> record,
                                          const std::string& where);

}  // namespace plimsoll::codec
