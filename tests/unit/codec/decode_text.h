#pragma once

// All pixels of an image whose file is a text, called "i" in messages.

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "codec/image/image.h"
#include "unit/codec/memory_files.h"

namespace plimsoll::codec {

inline std::vector<uint8_t> decode(const std::string& text, int channels = 3) {
  std::vector<uint8_t> pixels;
  decode_image(
      MemoryReader(bytes_of(text), "i"), channels, [](const ImageInfo&) {},
      [&](int64_t, std::span<const uint8_t> row) {
        pixels.insert(pixels.end(), row.begin(), row.end());
      });
  return pixels;
}

}  // namespace plimsoll::codec
