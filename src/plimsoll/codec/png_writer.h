#pragma once

// Writing a picture as PNG: 8 bits a channel, red, green, blue.
//
// It is drawn as it is written, a few rows at a time, so that no more than those and the compressed
// file are held. Rows are filtered by what lies above (a drawing's are mostly alike) and compressed
// by zlib with a window of a few of them. Format: ISO/IEC 15948.

#include <cstdint>
#include <functional>
#include <span>
#include <string>

namespace plimsoll::codec {

struct DrawnPicture {
  int width = 0;
  int height = 0;
  int rows_at_once = 1;
  // Fills rows from `top` on, as many as `pixels` has: 3 · width bytes each, all 255 before.
  std::function<void(int top, std::span<uint8_t> pixels)> draw;
};

// The bytes of a .png file. Throws kData where a size is not above 0, kBackend where zlib has no
// memory.
std::string write_png(const DrawnPicture& picture);

}  // namespace plimsoll::codec
