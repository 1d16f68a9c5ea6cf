#pragma once

// Bytes of a fuzzer as the file that a reader expects.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "base/tensor_io.h"
#include "codec/byte_reader.h"

namespace plimsoll::fuzz {

inline std::span<const std::byte> bytes_of(const uint8_t* data, size_t size) {
  return std::as_bytes(std::span(data, size));
}

// A file without a name that holds the bytes.
inline std::shared_ptr<const codec::FileReader> file_of(const uint8_t* data, size_t size) {
  auto file = std::make_shared<File>(File::unlinked("/dev/shm"));
  file->write_at(0, bytes_of(data, size));
  return std::make_shared<codec::FileReader>(std::move(file));
}

// Reads tensors in pieces, at most a million bytes of all of them.
inline void read_some(TensorSource& source) {
  int64_t left = 1'000'000;
  std::vector<std::byte> piece(4096);
  for (size_t i = 0; i < source.tensors().size(); ++i) {
    const TensorInfo& info = source.tensors()[i];
    int64_t bytes = element_bytes(info.dtype).count();
    for (const int64_t extent : info.shape) bytes *= extent;
    for (int64_t at = 0; at < bytes && left > 0; at += 4096, left -= 4096) {
      source.read(i, at,
                  std::span(piece).first(static_cast<size_t>(std::min<int64_t>(4096, bytes - at))));
    }
  }
}

}  // namespace plimsoll::fuzz
