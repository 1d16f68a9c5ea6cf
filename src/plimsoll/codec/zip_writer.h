#pragma once

// Writing zip archives, member after member, straight into a file.
//
// Members may be of any size (zip64 where needed) and are streamed: nothing is held back in memory
// but the directory. Output depends on the content alone: all members carry the date 1980-01-01.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/file.h"
#include "codec/byte_reader.h"

namespace plimsoll::codec {

enum class ZipMethod { kStored, kDeflated };

class ZipWriter final {
 public:
  // `file` is empty and outlives the writer; it is not committed here.
  explicit ZipWriter(File& file);
  ZipWriter(const ZipWriter&) = delete;
  ZipWriter& operator=(const ZipWriter&) = delete;
  ~ZipWriter();

  // A whole member.
  void add(std::string_view name, std::span<const std::byte> content,
           ZipMethod method = ZipMethod::kStored);
  void add(std::string_view name, std::string_view content, ZipMethod method = ZipMethod::kStored);
  // A member whose bytes follow through the sink, which is valid until the next call here.
  ByteSink& begin(std::string_view name, ZipMethod method = ZipMethod::kStored);
  // Ends the last member and writes the directory. Without it the file is no archive.
  void finish();

 private:
  class Member;
  struct Entry {
    std::string name;
    ZipMethod method = ZipMethod::kStored;
    uint32_t crc32 = 0;
    int64_t bytes = 0;
    int64_t stored_bytes = 0;
    int64_t header_offset = 0;
  };

  File& file_;
  int64_t end_ = 0;
  std::vector<Entry> entries_;
  std::unique_ptr<Member> member_;
  bool finished_ = false;

  void end_member();
  void append(std::span<const std::byte> bytes);
};

}  // namespace plimsoll::codec
