#pragma once

// Reading zip archives (.keras, .npz) without trusting them.
//
// The central directory is the truth; a member's own header must agree with it. Refused: names that
// occur twice, absolute names and names with "..", encrypted or split archives, members that
// overlap each other, and sizes that deflate cannot reach (bombs). Nothing is written to disk under
// an archive's names. Zip64 is read. Stored members can be read in place.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "base/error.h"
#include "codec/byte_reader.h"

namespace plimsoll::codec {

struct ZipEntry {
  std::string name;
  int64_t bytes = 0;         // inflated
  int64_t stored_bytes = 0;  // in the archive
  bool deflated = false;
  uint32_t crc32 = 0;
  int64_t header_offset = 0;
  friend bool operator==(const ZipEntry&, const ZipEntry&) = default;
};

class ZipReader {
 public:
  // Reads the directory. Errors of content are of kind `malformed`.
  ZipReader(std::shared_ptr<const FileReader> file, ErrorKind malformed);

  const std::string& name() const { return file_->name(); }
  // In the order of the directory.
  std::span<const ZipEntry> entries() const { return entries_; }
  Bytes held_bytes() const;  // of the table of entries
  // None: nullptr.
  const ZipEntry* find(std::string_view name) const;

  // A stored member in place (its checksum is not read); a deflated one inflated once into a
  // nameless file in `folder`, checksum verified.
  std::shared_ptr<const FileReader> open(const ZipEntry& entry, const std::string& folder) const;
  // A whole member in memory, checksum verified; refused when larger than `max_bytes`.
  std::vector<std::byte> read(const ZipEntry& entry, int64_t max_bytes) const;
  std::string read_text(const ZipEntry& entry, int64_t max_bytes) const;
  // Reads a stored member once, piece by piece, and compares its checksum; refuses it otherwise.
  void verify(const ZipEntry& entry) const;

 private:
  std::shared_ptr<const FileReader> file_;
  ErrorKind malformed_;
  std::vector<ZipEntry> entries_;

  [[noreturn]] void refuse(const std::string& what) const;
  std::shared_ptr<const FileReader> stored_part(const ZipEntry& entry) const;
  void check_crc(const ZipEntry& entry, uint32_t crc) const;
};

// True when the file starts as a zip archive does.
bool looks_like_zip(const ByteReader& file);

}  // namespace plimsoll::codec
