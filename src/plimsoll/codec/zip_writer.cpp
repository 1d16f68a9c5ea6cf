#include "codec/zip_writer.h"

#include <zlib.h>

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "codec/byte_cursor.h"
#include "codec/inflate.h"

namespace plimsoll::codec {
namespace {

constexpr uint64_t kFull32 = 0xFFFFFFFF;
constexpr uint64_t kFull16 = 0xFFFF;
constexpr uint16_t kVersion64 = 45;        // needed to read zip64
constexpr uint16_t kUtf8Names = 1u << 11;  // general purpose flag
constexpr uint16_t kDate1980 = (1u << 5) | 1u;
constexpr size_t kPieceBytes = 64 * 1024;

uint64_t method_code(ZipMethod method) { return method == ZipMethod::kDeflated ? 8 : 0; }

}  // namespace

// The member that is being written: counts, checks, compresses.
class ZipWriter::Member final : public ByteSink {
 public:
  Member(ZipWriter& writer, ZipMethod method) : writer_(writer), method_(method) {
    if (method_ == ZipMethod::kStored) return;
    constexpr int kDefaultMemory = 8;
    const int status = deflateInit2(&stream_, Z_DEFAULT_COMPRESSION, Z_DEFLATED, -MAX_WBITS,
                                    kDefaultMemory, Z_DEFAULT_STRATEGY);
    if (status != Z_OK) {
      throw Error(ErrorKind::kBackend, "zlib: expected an encoder, received none (out of memory).");
    }
    output_.resize(kPieceBytes);
  }
  Member(const Member&) = delete;
  Member& operator=(const Member&) = delete;
  ~Member() override {
    if (method_ == ZipMethod::kDeflated) deflateEnd(&stream_);
  }

  void write(std::span<const std::byte> bytes) override {
    crc32_ = update_crc32(crc32_, bytes);
    bytes_ += static_cast<int64_t>(bytes.size());
    if (method_ == ZipMethod::kStored) {
      store(bytes);
      return;
    }
    for (std::span<const std::byte> rest = bytes; !rest.empty();) {
      const std::span<const std::byte> piece = rest.first(std::min(rest.size(), kPieceBytes));
      compress(piece, Z_NO_FLUSH);
      rest = rest.subspan(piece.size());
    }
  }
  void finish() {
    if (method_ == ZipMethod::kDeflated) compress({}, Z_FINISH);
  }

  uint32_t crc32() const { return crc32_; }
  int64_t bytes() const { return bytes_; }
  int64_t stored_bytes() const { return stored_bytes_; }

 private:
  void store(std::span<const std::byte> bytes) {
    writer_.append(bytes);
    stored_bytes_ += static_cast<int64_t>(bytes.size());
  }
  void compress(std::span<const std::byte> piece, int flush) {
    stream_.next_in = reinterpret_cast<Bytef*>(const_cast<std::byte*>(piece.data()));
    stream_.avail_in = static_cast<uInt>(piece.size());
    do {
      stream_.next_out = reinterpret_cast<Bytef*>(output_.data());
      stream_.avail_out = static_cast<uInt>(output_.size());
      const int status = deflate(&stream_, flush);
      PLIMSOLL_CHECK(status != Z_STREAM_ERROR, "zlib's encoder lost its state");
      store(std::span(output_).first(output_.size() - stream_.avail_out));
    } while (stream_.avail_out == 0);
  }

  ZipWriter& writer_;
  ZipMethod method_;
  z_stream stream_ = {};
  std::vector<std::byte> output_;
  uint32_t crc32_ = 0;
  int64_t bytes_ = 0;
  int64_t stored_bytes_ = 0;
};

namespace {

// A member's own header. Its size is the same before and after the content is known: sizes stand in
// the zip64 field, which every reader since 2001 knows and Python's zipfile writes too.
//
//   magic · version · flags · method · time · date · crc · -1 · -1 · name length · 20 · name ·
//   { 1 · 16 · size · stored size }
template <typename Entry>
ByteBuilder local_header(const Entry& entry) {
  ByteBuilder header;
  header.put(0x04034B50, 4).put(kVersion64, 2).put(kUtf8Names, 2).put(method_code(entry.method), 2);
  header.put(0, 2).put(kDate1980, 2).put(entry.crc32, 4).put(kFull32, 4).put(kFull32, 4);
  header.put(entry.name.size(), 2).put(20, 2).put_text(entry.name);
  header.put(1, 2).put(16, 2).put(static_cast<uint64_t>(entry.bytes), 8);
  header.put(static_cast<uint64_t>(entry.stored_bytes), 8);
  return header;
}

template <typename Entry>
void put_central_header(ByteBuilder& out, const Entry& entry) {
  const auto bytes = static_cast<uint64_t>(entry.bytes);
  const auto stored = static_cast<uint64_t>(entry.stored_bytes);
  const auto offset = static_cast<uint64_t>(entry.header_offset);
  ByteBuilder extra;
  for (uint64_t value : {bytes, stored, offset}) {
    if (value >= kFull32) extra.put(value, 8);
  }
  const size_t extra_bytes = extra.size() > 0 ? extra.size() + 4 : 0;
  out.put(0x02014B50, 4).put(kVersion64, 2).put(kVersion64, 2).put(kUtf8Names, 2);
  out.put(method_code(entry.method), 2).put(0, 2).put(kDate1980, 2).put(entry.crc32, 4);
  out.put(std::min(stored, kFull32), 4).put(std::min(bytes, kFull32), 4);
  out.put(entry.name.size(), 2).put(extra_bytes, 2).put(0, 2).put(0, 2).put(0, 2);
  out.put(0, 4).put(std::min(offset, kFull32), 4).put_text(entry.name);
  if (extra_bytes > 0) out.put(1, 2).put(extra.size(), 2).put_bytes(extra.bytes());
}

}  // namespace

ZipWriter::ZipWriter(File& file) : file_(file) {}
ZipWriter::~ZipWriter() = default;

void ZipWriter::append(std::span<const std::byte> bytes) {
  file_.write_at(end_, bytes);
  end_ += static_cast<int64_t>(bytes.size());
}

ByteSink& ZipWriter::begin(std::string_view name, ZipMethod method) {
  end_member();
  PLIMSOLL_CHECK(!finished_, "a member after the end of the archive");
  PLIMSOLL_CHECK(!name.empty() && name.size() < kFull16, "a name that no archive can hold");
  const bool known = std::any_of(entries_.begin(), entries_.end(),
                                 [&](const Entry& entry) { return entry.name == name; });
  PLIMSOLL_CHECK(!known, "two members named " + std::string(name));
  Entry entry;
  entry.name = name;
  entry.method = method;
  entry.header_offset = end_;
  append(local_header(entry).bytes());
  entries_.push_back(std::move(entry));
  member_ = std::make_unique<Member>(*this, method);
  return *member_;
}

void ZipWriter::end_member() {
  if (!member_) return;
  member_->finish();
  Entry& entry = entries_.back();
  entry.crc32 = member_->crc32();
  entry.bytes = member_->bytes();
  entry.stored_bytes = member_->stored_bytes();
  member_.reset();
  file_.write_at(entry.header_offset, local_header(entry).bytes());
}

void ZipWriter::add(std::string_view name, std::span<const std::byte> content, ZipMethod method) {
  begin(name, method).write(content);
  end_member();
}

void ZipWriter::add(std::string_view name, std::string_view content, ZipMethod method) {
  add(name, std::as_bytes(std::span(content)), method);
}

void ZipWriter::finish() {
  end_member();
  if (finished_) return;
  finished_ = true;
  const auto offset = static_cast<uint64_t>(end_);
  const uint64_t count = entries_.size();
  ByteBuilder directory;
  for (const Entry& entry : entries_) put_central_header(directory, entry);
  const uint64_t bytes = directory.size();
  if (offset >= kFull32 || bytes >= kFull32 || count >= kFull16) {
    const uint64_t record = offset + bytes;
    directory.put(0x06064B50, 4).put(44, 8).put(kVersion64, 2).put(kVersion64, 2).put(0, 4);
    directory.put(0, 4).put(count, 8).put(count, 8).put(bytes, 8).put(offset, 8);
    directory.put(0x07064B50, 4).put(0, 4).put(record, 8).put(1, 4);
  }
  directory.put(0x06054B50, 4).put(0, 2).put(0, 2);
  directory.put(std::min(count, kFull16), 2).put(std::min(count, kFull16), 2);
  directory.put(std::min(bytes, kFull32), 4).put(std::min(offset, kFull32), 4).put(0, 2);
  append(directory.bytes());
}

}  // namespace plimsoll::codec
