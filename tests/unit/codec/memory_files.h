#pragma once

// Bytes for the tests of codecs, made without touching a disk where possible.

#include <zlib.h>

#include <cstring>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "codec/byte_reader.h"

namespace plimsoll::codec {

inline std::vector<std::byte> bytes_of(std::string_view text) {
  const auto* begin = reinterpret_cast<const std::byte*>(text.data());
  return {begin, begin + text.size()};
}

inline std::string text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

inline std::string read_all(const ByteReader& reader) {
  std::vector<std::byte> bytes(static_cast<size_t>(reader.size()));
  reader.read_at(0, bytes);
  return text_of(bytes);
}

// An unlinked file with this content.
inline std::shared_ptr<const FileReader> file_of(std::span<const std::byte> bytes,
                                                 const std::string& name) {
  auto file = std::make_shared<File>(File::unlinked("/var/tmp"));
  file->write_at(0, bytes);
  return std::make_shared<const FileReader>(file, 0, static_cast<int64_t>(bytes.size()), name);
}

// zlib's own compression: window_bits 31 gives gzip, 15 zlib, -15 raw.
inline std::vector<std::byte> deflated(std::string_view text, int window_bits) {
  z_stream stream = {};
  deflateInit2(&stream, 6, Z_DEFLATED, window_bits, 8, Z_DEFAULT_STRATEGY);
  std::vector<std::byte> out(text.size() + text.size() / 100 + 1000);
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  stream.avail_in = static_cast<uInt>(text.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  deflate(&stream, Z_FINISH);
  out.resize(stream.total_out);
  deflateEnd(&stream);
  return out;
}

// Text that neither compresses to nothing nor not at all.
inline std::string noisy_text(size_t size) {
  std::mt19937 random(7);
  std::string text(size, ' ');
  for (char& c : text) c = static_cast<char>('a' + random() % 16);
  return text;
}

// Calls `body` with damaged copies of `bytes`: one to eight bytes changed, a run set to zeros or
// ones, or the end cut off. Deterministic.
inline void for_each_mutation(const std::vector<std::byte>& bytes, int count, unsigned seed,
                              const std::function<void(std::vector<std::byte>)>& body) {
  std::mt19937 random(seed);
  for (int i = 0; i < count; ++i) {
    std::vector<std::byte> copy = bytes;
    const unsigned kind = random() % 8;
    if (kind == 0) {
      copy.resize(random() % bytes.size());
    } else if (kind == 1) {
      const size_t begin = random() % copy.size();
      const size_t end = std::min<size_t>(copy.size(), begin + 1 + random() % 16);
      const auto value = static_cast<std::byte>(random() % 2 == 0 ? 0x00 : 0xFF);
      for (size_t at = begin; at < end; ++at) copy[at] = value;
    } else {
      const unsigned changes = 1 + random() % 8;
      for (unsigned j = 0; j < changes; ++j) {
        copy[random() % copy.size()] = static_cast<std::byte>(random() & 0xFF);
      }
    }
    body(std::move(copy));
  }
}

}  // namespace plimsoll::codec
