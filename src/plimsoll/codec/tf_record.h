#pragma once

// TensorFlow's record files: framing, and tf.train.Example inside of it.
//
//   length (8) · masked CRC-32C of it (4) · data · masked CRC-32C of them (4)      little-endian
//
// A record is never held: its checksum, its features and their values are read through a window of
// 64 KiB, so that one of any size takes no more. Lengths and checksums are verified before anything
// is believed. Fields that are not known are skipped, as protobuf says. Source:
// tensorflow/core/lib/io/record_writer.h, tensorflow/core/example/feature.proto.

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "codec/byte_reader.h"

namespace plimsoll::codec {

// A list of values in a record, by its place in the file.
struct ExampleFeature {
  enum class Kind : uint8_t { kNone, kBytes, kFloats, kIntegers };
  std::string name;
  Kind kind = Kind::kNone;
  int64_t count = 0;  // of values; strings of bytes count as one each
  int64_t bytes = 0;  // of all strings together
  int64_t begin = 0;  // of the list
  int64_t end = 0;
};

class TfRecordReader {
 public:
  // Buffers that it holds.
  static constexpr int64_t kResidentBytes = 128 << 10;

  explicit TfRecordReader(std::shared_ptr<const FileReader> file);
  TfRecordReader(TfRecordReader&&) noexcept;
  ~TfRecordReader();

  // Moves to the next record and verifies it; false at the end. Throws kData with the number of the
  // record.
  bool next();
  int64_t index() const { return index_; }  // of the record, from 0
  // Where its data are in the file.
  int64_t begin() const { return begin_; }
  int64_t end() const { return end_; }
  // "train.tfrecord: record 7"
  std::string where() const;

  // The record's features by name, as they stand. Throws kData for what is no tf.train.Example.
  std::vector<ExampleFeature> features();
  // Hands all values of a feature of this record out in pieces of at most 64 KiB: float32, int64 or
  // bytes, a piece of integers being a whole number of them.
  void read_values(const ExampleFeature& feature,
                   const std::function<void(std::span<const std::byte>)>& consumer);
  // Hands a feature's strings of bytes out one after another: `next` is told how long one is, and
  // gives what it is put into.
  void read_strings(const ExampleFeature& feature,
                    const std::function<std::string&(int64_t bytes)>& next);
  // A feature's first string of bytes, where it lies.
  std::shared_ptr<const FileReader> open_string(const ExampleFeature& feature);

 private:
  class Window;
  [[noreturn]] void refuse(const std::string& what) const;
  uint64_t take_number(int64_t offset, int64_t bytes);
  uint32_t masked_sum(int64_t begin, int64_t end);

  std::shared_ptr<const FileReader> file_;
  std::unique_ptr<Window> window_;
  std::vector<std::byte> values_;  // on their way out
  int64_t next_ = 0;
  int64_t begin_ = 0;
  int64_t end_ = 0;
  int64_t index_ = -1;
};

// Whether the file begins with the length of a record and its checksum.
bool looks_like_tf_record(const ByteReader& file);

// The framing of one record.
std::vector<std::byte> tf_record_frame(std::span<const std::byte> data);

}  // namespace plimsoll::codec
