#include "codec/zip_reader.h"

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include "base/format.h"
#include "codec/byte_cursor.h"
#include "codec/inflate.h"

namespace plimsoll::codec {
namespace {

// Layouts: "APPNOTE.TXT - .ZIP File Format Specification", 4.3.
constexpr uint32_t kLocalMagic = 0x04034B50;
constexpr uint32_t kCentralMagic = 0x02014B50;
constexpr uint32_t kEndMagic = 0x06054B50;
constexpr uint32_t kEnd64Magic = 0x06064B50;
constexpr uint32_t kLocator64Magic = 0x07064B50;
constexpr int64_t kLocalBytes = 30;
constexpr int64_t kEndBytes = 22;
constexpr int64_t kEnd64Bytes = 56;
constexpr int64_t kLocator64Bytes = 20;
constexpr uint32_t kFull32 = 0xFFFFFFFF;
constexpr uint16_t kFull16 = 0xFFFF;
constexpr uint16_t kExtra64 = 0x0001;

constexpr int64_t kMaxDirectoryBytes = 8 << 20;
constexpr uint64_t kMaxEntries = 65536;
// Deflate makes at most 1032 bytes of one.
constexpr int64_t kMaxRatio = 1032;

struct Directory {
  int64_t offset = 0;
  int64_t bytes = 0;
  uint64_t count = 0;
};

std::vector<std::byte> read_part(const ByteReader& file, int64_t offset, int64_t count) {
  std::vector<std::byte> bytes(static_cast<size_t>(count));
  file.read_at(offset, bytes);
  return bytes;
}

uint32_t number_at(std::span<const std::byte> bytes, size_t at, size_t width) {
  uint32_t value = 0;
  for (size_t i = 0; i < width; ++i) value |= std::to_integer<uint32_t>(bytes[at + i]) << (8 * i);
  return value;
}

// Where the end record begins: the last one whose comment reaches exactly to the end of the file.
std::optional<int64_t> find_end(const ByteReader& file) {
  if (file.size() < kEndBytes) return std::nullopt;
  const int64_t count = std::min<int64_t>(file.size(), kEndBytes + kFull16);
  const std::vector<std::byte> tail = read_part(file, file.size() - count, count);
  for (int64_t at = count - kEndBytes; at >= 0; --at) {
    const auto position = static_cast<size_t>(at);
    if (number_at(tail, position, 4) != kEndMagic) continue;
    const int64_t comment = number_at(tail, position + 20, 2);
    if (at + kEndBytes + comment == count) return file.size() - count + at;
  }
  return std::nullopt;
}

// The directory's place, zip64 included. `fail` throws.
Directory find_directory(const ByteReader& file, const ByteCursor::Fail& fail) {
  const std::optional<int64_t> end = find_end(file);
  if (!end) fail("no directory at its end (it is cut short, or no zip archive)");
  const std::vector<std::byte> record = read_part(file, *end, kEndBytes);
  ByteCursor cursor(record, fail);
  cursor.skip(4);
  const uint64_t disk = cursor.take(2);
  const uint64_t directory_disk = cursor.take(2);
  const uint64_t count_here = cursor.take(2);
  Directory directory;
  directory.count = cursor.take(2);
  uint64_t bytes = cursor.take(4);
  uint64_t offset = cursor.take(4);
  int64_t directory_end = *end;
  const bool large = directory.count == kFull16 || bytes == kFull32 || offset == kFull32;
  if (large && *end >= kLocator64Bytes + kEnd64Bytes) {
    const std::vector<std::byte> locator = read_part(file, *end - kLocator64Bytes, kLocator64Bytes);
    ByteCursor at(locator, fail);
    if (at.take(4) == kLocator64Magic) {
      at.skip(4);
      const uint64_t where = at.take(8);
      if (where > static_cast<uint64_t>(*end - kLocator64Bytes - kEnd64Bytes)) {
        fail("a directory record outside of the file");
      }
      const std::vector<std::byte> wide = read_part(file, static_cast<int64_t>(where), kEnd64Bytes);
      ByteCursor fields(wide, fail);
      if (fields.take(4) != kEnd64Magic) fail("no zip64 record where one is announced");
      fields.skip(8 + 2 + 2 + 4 + 4 + 8);
      directory.count = fields.take(8);
      bytes = fields.take(8);
      offset = fields.take(8);
      directory_end = static_cast<int64_t>(where);
    }
  } else if (disk != 0 || directory_disk != 0 || count_here != directory.count) {
    fail("a part of a split archive; join the parts first");
  }
  if (directory.count > kMaxEntries || bytes > static_cast<uint64_t>(kMaxDirectoryBytes)) {
    fail(fmt::format("a directory of {} members, more than {}", directory.count, kMaxEntries));
  }
  if (offset > static_cast<uint64_t>(directory_end) ||
      offset + bytes != static_cast<uint64_t>(directory_end)) {
    fail("a directory that is not where it says");
  }
  directory.offset = static_cast<int64_t>(offset);
  directory.bytes = static_cast<int64_t>(bytes);
  return directory;
}

// Replaces the sizes that are written as 2^32 - 1 by those of the zip64 field.
void read_extra64(std::span<const std::byte> extra, const ByteCursor::Fail& fail, uint64_t& bytes,
                  uint64_t& stored, uint64_t& offset) {
  ByteCursor cursor(extra, fail);
  while (cursor.left() >= 4) {
    const uint64_t id = cursor.take(2);
    const uint64_t size = cursor.take(2);
    const std::span<const std::byte> body = cursor.take_bytes(size);
    if (id != kExtra64) continue;
    ByteCursor fields(body, fail);
    if (bytes == kFull32) bytes = fields.take(8);
    if (stored == kFull32) stored = fields.take(8);
    if (offset == kFull32) offset = fields.take(8);
    return;
  }
}

bool is_unsafe_name(std::string_view name) {
  if (name.empty() || name.front() == '/' || name.front() == '\\') return true;
  if (name.size() >= 2 && name[1] == ':') return true;
  size_t begin = 0;
  for (size_t i = 0; i <= name.size(); ++i) {
    const bool separator = i == name.size() || name[i] == '/' || name[i] == '\\';
    if (!separator) {
      if (static_cast<unsigned char>(name[i]) < 0x20) return true;
      continue;
    }
    if (name.substr(begin, i - begin) == "..") return true;
    begin = i + 1;
  }
  return false;
}

// A name as it may be shown: control characters replaced, not longer than a line.
std::string printable(std::string_view name) {
  std::string text(name.substr(0, 80));
  for (char& c : text) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7F) c = '?';
  }
  return text;
}

ZipEntry read_entry(ByteCursor& cursor, int64_t directory_offset, const ByteCursor::Fail& fail) {
  if (cursor.take(4) != kCentralMagic) fail("a damaged directory");
  cursor.skip(4);
  const uint64_t flags = cursor.take(2);
  const uint64_t method = cursor.take(2);
  cursor.skip(4);
  ZipEntry entry;
  entry.crc32 = static_cast<uint32_t>(cursor.take(4));
  uint64_t stored = cursor.take(4);
  uint64_t bytes = cursor.take(4);
  const uint64_t name_bytes = cursor.take(2);
  const uint64_t extra_bytes = cursor.take(2);
  const uint64_t comment_bytes = cursor.take(2);
  cursor.skip(2 + 2 + 4);
  uint64_t offset = cursor.take(4);
  entry.name = cursor.take_text(name_bytes);
  read_extra64(cursor.take_bytes(extra_bytes), fail, bytes, stored, offset);
  cursor.skip(comment_bytes);

  const std::string shown = "the member \"" + printable(entry.name) + "\"";
  if (is_unsafe_name(entry.name)) fail(shown + ", whose name points outside of the archive");
  if ((flags & 1) != 0) fail(shown + ", which is encrypted; decrypt the archive first");
  if (method != 0 && method != 8) {
    fail(
        fmt::format("{}, compressed by method {}; only stored and deflated members are read. Pack "
                    "it again with zip",
                    shown, method));
  }
  const auto limit = static_cast<uint64_t>(directory_offset);
  const bool inside = offset <= limit && stored <= limit - offset &&
                      static_cast<uint64_t>(kLocalBytes) + name_bytes <= limit - offset - stored;
  if (!inside) fail(shown + ", which lies outside of the file");
  if (bytes > static_cast<uint64_t>(INT64_MAX)) fail(shown + " of an impossible size");
  entry.deflated = method == 8;
  entry.bytes = static_cast<int64_t>(bytes);
  entry.stored_bytes = static_cast<int64_t>(stored);
  entry.header_offset = static_cast<int64_t>(offset);
  if (!entry.deflated && entry.bytes != entry.stored_bytes) fail(shown + " of two sizes");
  if (entry.deflated && entry.bytes / kMaxRatio > entry.stored_bytes) {
    fail(fmt::format("{}, which cannot inflate to {} bytes from {}", shown, entry.bytes,
                     entry.stored_bytes));
  }
  return entry;
}

// Two members of one name, or two that share bytes, make it unclear what the archive holds.
void check_apart(std::span<const ZipEntry> entries, const ByteCursor::Fail& fail) {
  std::vector<const ZipEntry*> order;
  order.reserve(entries.size());
  for (const ZipEntry& entry : entries) order.push_back(&entry);
  std::sort(order.begin(), order.end(),
            [](const ZipEntry* a, const ZipEntry* b) { return a->name < b->name; });
  for (size_t i = 1; i < order.size(); ++i) {
    if (order[i - 1]->name == order[i]->name) {
      fail("two members named \"" + printable(order[i]->name) + "\"; pack it again with one");
    }
  }
  std::sort(order.begin(), order.end(), [](const ZipEntry* a, const ZipEntry* b) {
    return a->header_offset < b->header_offset;
  });
  for (size_t i = 1; i < order.size(); ++i) {
    const ZipEntry& before = *order[i - 1];
    const int64_t end = before.header_offset + kLocalBytes +
                        static_cast<int64_t>(before.name.size()) + before.stored_bytes;
    if (end > order[i]->header_offset) {
      fail("members \"" + printable(before.name) + "\" and \"" + printable(order[i]->name) +
           "\" that overlap");
    }
  }
}

}  // namespace

void ZipReader::refuse(const std::string& what) const {
  throw Error(malformed_, name() + ": expected a zip archive, received " + what + ".");
}

ZipReader::ZipReader(std::shared_ptr<const FileReader> file, ErrorKind malformed)
    : file_(std::move(file)), malformed_(malformed) {
  const ByteCursor::Fail fail = [this](const std::string& what) { refuse(what); };
  const Directory directory = find_directory(*file_, fail);
  const std::vector<std::byte> bytes = read_part(*file_, directory.offset, directory.bytes);
  ByteCursor cursor(bytes, fail);
  for (uint64_t i = 0; i < directory.count; ++i) {
    entries_.push_back(read_entry(cursor, directory.offset, fail));
  }
  if (cursor.left() > 0) refuse("a directory of another size than it says");
  check_apart(entries_, fail);
}

Bytes ZipReader::held_bytes() const {
  size_t bytes = entries_.capacity() * sizeof(ZipEntry);
  for (const ZipEntry& entry : entries_) bytes += entry.name.capacity();
  return Bytes(static_cast<int64_t>(bytes));
}

const ZipEntry* ZipReader::find(std::string_view name) const {
  for (const ZipEntry& entry : entries_) {
    if (entry.name == name) return &entry;
  }
  return nullptr;
}

std::shared_ptr<const FileReader> ZipReader::stored_part(const ZipEntry& entry) const {
  const ByteCursor::Fail fail = [this](const std::string& what) { refuse(what); };
  const std::vector<std::byte> header = read_part(*file_, entry.header_offset, kLocalBytes);
  ByteCursor cursor(header, fail);
  const bool magic = cursor.take(4) == kLocalMagic;
  cursor.skip(4);
  const uint64_t method = cursor.take(2);
  cursor.skip(4 + 4 + 4 + 4);
  const uint64_t name_bytes = cursor.take(2);
  const uint64_t extra_bytes = cursor.take(2);
  const bool agrees =
      magic && method == (entry.deflated ? 8u : 0u) && name_bytes == entry.name.size();
  if (!agrees) refuse("a member \"" + printable(entry.name) + "\" that its own header denies");
  const int64_t begin =
      entry.header_offset + kLocalBytes + static_cast<int64_t>(name_bytes + extra_bytes);
  if (begin > file_->size() || entry.stored_bytes > file_->size() - begin) {
    refuse("a member \"" + printable(entry.name) + "\" beyond its end");
  }
  return std::make_shared<const FileReader>(file_->file(), file_->offset() + begin,
                                            entry.stored_bytes,
                                            name() + "/" + printable(entry.name));
}

void ZipReader::check_crc(const ZipEntry& entry, uint32_t crc) const {
  if (crc != entry.crc32) {
    refuse("a member \"" + printable(entry.name) + "\" whose checksum does not match its bytes");
  }
}

std::shared_ptr<const FileReader> ZipReader::open(const ZipEntry& entry,
                                                  const std::string& folder) const {
  std::shared_ptr<const FileReader> part = stored_part(entry);
  if (!entry.deflated) return part;
  auto file = std::make_shared<File>(File::unlinked(folder));
  uint32_t crc = 0;
  int64_t end = 0;
  inflate_stream(*part, DeflateForm::kRaw, {entry.bytes, malformed_},
                 [&](std::span<const std::byte> piece) {
                   crc = update_crc32(crc, piece);
                   file->write_at(end, piece);
                   end += static_cast<int64_t>(piece.size());
                 });
  check_crc(entry, crc);
  return std::make_shared<const FileReader>(std::move(file), 0, end, part->name());
}

void ZipReader::verify(const ZipEntry& entry) const {
  if (entry.deflated)
    refuse("a stored member, received \"" + printable(entry.name) + "\" deflated");
  constexpr int64_t kPieceBytes = 256 << 10;
  const std::shared_ptr<const FileReader> part = stored_part(entry);
  std::vector<std::byte> piece(static_cast<size_t>(std::min(entry.bytes, kPieceBytes)));
  uint32_t crc = 0;
  for (int64_t done = 0; done < entry.bytes;) {
    const auto span = std::span(piece).first(
        static_cast<size_t>(std::min(entry.bytes - done, static_cast<int64_t>(piece.size()))));
    part->read_at(done, span);
    crc = update_crc32(crc, span);
    done += static_cast<int64_t>(span.size());
  }
  check_crc(entry, crc);
}

std::vector<std::byte> ZipReader::read(const ZipEntry& entry, int64_t max_bytes) const {
  if (entry.bytes > max_bytes) {
    refuse(fmt::format("a member \"{}\" of {} bytes where at most {} make sense",
                       printable(entry.name), entry.bytes, max_bytes));
  }
  const std::shared_ptr<const FileReader> part = stored_part(entry);
  std::vector<std::byte> content(static_cast<size_t>(entry.bytes));
  if (entry.deflated) {
    size_t done = 0;
    inflate_stream(*part, DeflateForm::kRaw, {entry.bytes, malformed_},
                   [&](std::span<const std::byte> piece) {
                     std::copy(piece.begin(), piece.end(),
                               content.begin() + static_cast<std::ptrdiff_t>(done));
                     done += piece.size();
                   });
    content.resize(done);
  } else {
    part->read_at(0, content);
  }
  check_crc(entry, update_crc32(0, content));
  return content;
}

std::string ZipReader::read_text(const ZipEntry& entry, int64_t max_bytes) const {
  const std::vector<std::byte> content = read(entry, max_bytes);
  return std::string(reinterpret_cast<const char*>(content.data()), content.size());
}

bool looks_like_zip(const ByteReader& file) {
  if (file.size() < kEndBytes) return false;
  std::array<std::byte, 4> start;
  file.read_at(0, start);
  const uint32_t magic = number_at(start, 0, 4);
  return magic == kLocalMagic || magic == kEndMagic;
}

}  // namespace plimsoll::codec
