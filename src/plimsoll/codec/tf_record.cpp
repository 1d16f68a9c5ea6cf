#include "codec/tf_record.h"

#include <algorithm>
#include <array>
#include <utility>

#include "base/format.h"
#include "codec/byte_cursor.h"
#include "codec/crc32c.h"
#include "codec/protobuf_wire.h"

namespace plimsoll::codec {
namespace {

using Kind = ExampleFeature::Kind;

constexpr uint64_t kMaxRecordBytes = uint64_t{1} << 31;  // protobuf's own bound
constexpr int64_t kHeadBytes = 12;
constexpr int64_t kTailBytes = 4;
constexpr int64_t kPieceBytes = 64 << 10;
constexpr size_t kMaxFeatures = 65'536;
constexpr int64_t kMaxNameBytes = 1 << 20;  // of all names

uint64_t little_endian(std::span<const std::byte> bytes) {
  uint64_t value = 0;
  for (size_t i = bytes.size(); i-- > 0;)
    value = (value << 8) | std::to_integer<uint64_t>(bytes[i]);
  return value;
}

using Fail = ByteCursor::Fail;

}  // namespace

// The part of the file that was read last.
class TfRecordReader::Window {
 public:
  explicit Window(const ByteReader& file) : file_(file), bytes_(kPieceBytes) {}

  // Bytes from `offset` on, at least one of them and at most `most`; the offset is in the file.
  std::span<const std::byte> at(int64_t offset, int64_t most) {
    if (offset < begin_ || offset >= begin_ + size_) {
      size_ = 0;  // should reading fail
      const int64_t count = std::min(kPieceBytes, file_.size() - offset);
      file_.read_at(offset, std::span(bytes_).first(static_cast<size_t>(count)));
      begin_ = offset;
      size_ = count;
    }
    const int64_t inside = offset - begin_;
    return std::span<const std::byte>(bytes_).subspan(
        static_cast<size_t>(inside), static_cast<size_t>(std::min(most, size_ - inside)));
  }

 private:
  const ByteReader& file_;
  std::vector<std::byte> bytes_;
  int64_t begin_ = 0;
  int64_t size_ = 0;
};

namespace {

// Walks over the values of a list. `take_range` gets bytes that are values as they lie (strings,
// floats), `take_integer` an integer.
template <typename Window, typename TakeRange, typename TakeInteger>
void walk_values(Window& window, const ExampleFeature& feature, const Fail& fail,
                 const TakeRange& take_range, const TakeInteger& take_integer) {
  ProtobufFields<Window> list(window, feature.begin, feature.end, fail);
  while (const uint64_t field = list.next()) {
    if (field != 1) continue;
    if (feature.kind == Kind::kBytes) {
      if (list.type != WireType::kLength) fail("bytes that are none");
      take_range(list.begin, list.end);
    } else if (feature.kind == Kind::kFloats) {
      if (list.type != WireType::kLength && list.type != WireType::kFixed32)
        fail("floats that are none");
      if ((list.end - list.begin) % 4 != 0) fail("floats of another length than four bytes");
      take_range(list.begin, list.end);
    } else if (list.type == WireType::kVarint) {
      take_integer(static_cast<int64_t>(list.number));
    } else {
      if (list.type != WireType::kLength) fail("integers that are none");
      ProtobufFields<Window> packed(window, list.begin, list.end, fail);
      while (!packed.at_end()) take_integer(static_cast<int64_t>(packed.varint()));
    }
  }
}

template <typename Window>
void take_feature(Window& window, ProtobufFields<Window>& message, ExampleFeature& feature,
                  const Fail& fail) {
  while (const uint64_t field = message.next()) {
    if (field > 3) continue;
    if (message.type != WireType::kLength) fail("a feature that is no list");
    if (feature.kind != Kind::kNone) fail("a feature of several lists");
    feature.kind = field == 1 ? Kind::kBytes : field == 2 ? Kind::kFloats : Kind::kIntegers;
    feature.begin = message.begin;
    feature.end = message.end;
  }
  walk_values(
      window, feature, fail,
      [&](int64_t begin, int64_t end) {
        const bool bytes = feature.kind == Kind::kBytes;
        feature.count += bytes ? 1 : (end - begin) / 4;
        if (bytes) feature.bytes += end - begin;
      },
      [&](int64_t) { ++feature.count; });
}

}  // namespace

TfRecordReader::TfRecordReader(std::shared_ptr<const FileReader> file)
    : file_(std::move(file)), window_(std::make_unique<Window>(*file_)) {
  values_.reserve(kPieceBytes);
}
TfRecordReader::TfRecordReader(TfRecordReader&&) noexcept = default;
TfRecordReader::~TfRecordReader() = default;

std::string TfRecordReader::where() const {
  return fmt::format("{}: record {}", file_->name(), index_);
}

void TfRecordReader::refuse(const std::string& what) const {
  throw Error(ErrorKind::kData,
              where() + ": expected a whole record of a TFRecord file, received " + what + ".");
}

uint64_t TfRecordReader::take_number(int64_t offset, int64_t bytes) {
  uint64_t value = 0;
  for (int64_t i = 0; i < bytes; ++i) {
    value |= std::to_integer<uint64_t>(window_->at(offset + i, 1).front()) << (8 * i);
  }
  return value;
}

uint32_t TfRecordReader::masked_sum(int64_t begin, int64_t end) {
  Crc32c sum;
  while (begin < end) {
    const std::span<const std::byte> piece = window_->at(begin, end - begin);
    sum.add(piece);
    begin += std::ssize(piece);
  }
  return masked_crc32c(sum.value());
}

bool TfRecordReader::next() {
  const int64_t left = file_->size() - next_;
  if (left == 0) return false;
  ++index_;
  if (left < kHeadBytes + kTailBytes) refuse("the end of the file");
  const uint64_t length = take_number(next_, 8);
  if (take_number(next_ + 8, 4) != masked_sum(next_, next_ + 8)) {
    refuse("a length whose checksum is wrong");
  }
  if (length > kMaxRecordBytes) {
    refuse(fmt::format("one of {} bytes (2 GiB at most are read)", length));
  }
  const auto bytes = static_cast<int64_t>(length);
  if (bytes > left - kHeadBytes - kTailBytes) refuse("the end of the file");
  begin_ = next_ + kHeadBytes;
  end_ = begin_ + bytes;
  if (take_number(end_, kTailBytes) != masked_sum(begin_, end_)) {
    refuse("data whose checksum is wrong");
  }
  next_ = end_ + kTailBytes;
  return true;
}

std::vector<ExampleFeature> TfRecordReader::features() {
  const Fail fail = [&](const std::string& what) {
    throw Error(ErrorKind::kData,
                where() + ": expected a tf.train.Example, received " + what + ".");
  };
  std::vector<ExampleFeature> features;
  int64_t name_bytes = 0;
  const auto take_entry = [&](int64_t begin, int64_t end) {
    ExampleFeature& feature = features.emplace_back();
    ProtobufFields<Window> entry(*window_, begin, end, fail);
    while (const uint64_t field = entry.next()) {
      if (field > 2) continue;
      if (entry.type != WireType::kLength) fail("an entry that is none");
      if (field == 2) {
        feature = {.name = std::move(feature.name)};
        ProtobufFields<Window> message(*window_, entry.begin, entry.end, fail);
        take_feature(*window_, message, feature, fail);
        continue;
      }
      name_bytes += entry.end - entry.begin;
      if (name_bytes > kMaxNameBytes) fail("names of more than 1 MiB");
      feature.name.clear();
      while (std::ssize(feature.name) < entry.end - entry.begin) {
        const int64_t at = entry.begin + std::ssize(feature.name);
        const auto piece = window_->at(at, entry.end - at);
        feature.name.append(reinterpret_cast<const char*>(piece.data()), piece.size());
      }
    }
  };
  ProtobufFields<Window> example(*window_, begin_, end_, fail);
  while (const uint64_t field = example.next()) {
    if (field != 1) continue;
    if (example.type != WireType::kLength) fail("features that are no message");
    ProtobufFields<Window> map(*window_, example.begin, example.end, fail);
    while (const uint64_t entry = map.next()) {
      if (entry != 1) continue;
      if (map.type != WireType::kLength) fail("a feature that is no message");
      if (features.size() == kMaxFeatures) fail("more than 65536 features");
      take_entry(map.begin, map.end);
    }
  }
  return features;
}

void TfRecordReader::read_values(const ExampleFeature& feature,
                                 const std::function<void(std::span<const std::byte>)>& consumer) {
  const Fail fail = [&](const std::string& what) { refuse(what); };
  values_.clear();
  const auto flush = [&] {
    if (!values_.empty()) consumer(values_);
    values_.clear();
  };
  const auto take_range = [&](int64_t begin, int64_t end) {
    while (begin < end) {
      const auto piece = window_->at(begin, end - begin);
      if (std::ssize(values_) + std::ssize(piece) > kPieceBytes) flush();
      values_.insert(values_.end(), piece.begin(), piece.end());
      begin += std::ssize(piece);
    }
  };
  const auto take_integer = [&](int64_t value) {
    const auto bytes = std::as_bytes(std::span(&value, 1));
    values_.insert(values_.end(), bytes.begin(), bytes.end());
    if (std::ssize(values_) >= kPieceBytes) flush();
  };
  walk_values(*window_, feature, fail, take_range, take_integer);
  flush();
}

void TfRecordReader::read_strings(const ExampleFeature& feature,
                                  const std::function<std::string&(int64_t bytes)>& next) {
  const Fail fail = [&](const std::string& what) { refuse(what); };
  const auto take_string = [&](int64_t begin, int64_t end) {
    std::string& text = next(end - begin);
    text.clear();
    while (begin < end) {
      const auto piece = window_->at(begin, end - begin);
      text.append(reinterpret_cast<const char*>(piece.data()), piece.size());
      begin += std::ssize(piece);
    }
  };
  walk_values(*window_, feature, fail, take_string, [](int64_t) {});
}

std::shared_ptr<const FileReader> TfRecordReader::open_string(const ExampleFeature& feature) {
  const Fail fail = [&](const std::string& what) { refuse(what); };
  ProtobufFields<Window> list(*window_, feature.begin, feature.end, fail);
  while (const uint64_t field = list.next()) {
    if (field != 1) continue;
    return std::make_shared<const FileReader>(file_->file(), file_->offset() + list.begin,
                                              list.end - list.begin, where());
  }
  refuse("no string");
}

bool looks_like_tf_record(const ByteReader& file) {
  std::array<std::byte, kHeadBytes> head;
  if (file.size() < kHeadBytes + kTailBytes) return false;
  file.read_at(0, head);
  const auto length = std::span<const std::byte>(head).first(8);
  return little_endian(std::span<const std::byte>(head).subspan(8)) == masked_crc32c(length);
}

std::vector<std::byte> tf_record_frame(std::span<const std::byte> data) {
  ByteBuilder builder;
  builder.put(data.size(), 8);
  builder.put(masked_crc32c(builder.bytes()), 4);
  builder.put_bytes(data);
  builder.put(masked_crc32c(data), 4);
  return {builder.bytes().begin(), builder.bytes().end()};
}

}  // namespace plimsoll::codec
